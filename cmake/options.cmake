# Build options and the flags every target shares.
option(SL_BUILD_TESTS "Build the C and C++ tests" ON)
option(SL_BUILD_BENCH "Build the programs that bench/run measures" OFF)
option(SL_BUILD_PYTHON "Build the Python package's module; needs Python 3.11 and nanobind" OFF)
option(SL_TEST_HOOKS "Compile in the fault points that tests use; never in a release" OFF)
set(SL_SANITIZE "" CACHE STRING "Sanitizers, as for -fsanitize= (address,undefined | thread)")

find_program(SL_CCACHE ccache)
if(SL_CCACHE)
    set(CMAKE_C_COMPILER_LAUNCHER ${SL_CCACHE})
    set(CMAKE_CXX_COMPILER_LAUNCHER ${SL_CCACHE})
endif()

add_compile_options(-Wall -Wextra -Werror -Wshadow -Wpointer-arith -fvisibility=hidden)
if(SL_SANITIZE)
    add_compile_options(-fsanitize=${SL_SANITIZE} -fno-omit-frame-pointer -fno-sanitize-recover=all)
    add_link_options(-fsanitize=${SL_SANITIZE})
endif()
if(SL_TEST_HOOKS)
    add_compile_definitions(SL_TEST_HOOKS=1)
endif()

# sl_library(name SOURCES... ): a folder's static library; its headers are included from the project's root.
function(sl_library name)
    add_library(${name} STATIC ${ARGN})
    target_include_directories(${name} PUBLIC ${CMAKE_SOURCE_DIR})
endfunction()
