# The outside libraries, found once; docs/dependencies.md says why each is here.
find_package(PkgConfig REQUIRED)
find_package(Threads REQUIRED)
find_package(Boost REQUIRED)                      # headers only: Boost.Interprocess
find_package(nlohmann_json REQUIRED)
find_package(JPEG REQUIRED)
find_package(spdlog REQUIRED)
pkg_check_modules(LIBSYSTEMD REQUIRED IMPORTED_TARGET libsystemd)
pkg_check_modules(LIBURING REQUIRED IMPORTED_TARGET liburing)
pkg_check_modules(VIPS REQUIRED IMPORTED_TARGET vips)
pkg_check_modules(SECCOMP REQUIRED IMPORTED_TARGET libseccomp)
pkg_check_modules(HWY REQUIRED IMPORTED_TARGET libhwy)
find_path(XXHASH_INCLUDE_DIR xxhash.h REQUIRED)    # header only: XXH_INLINE_ALL
