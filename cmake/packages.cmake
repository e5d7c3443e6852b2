# Debian packages, with SL_PACKAGES: daemon, library, development files and, with SL_BUILD_PYTHON, the Python package.
#
#   cmake --preset package && cmake --build --preset package --target package      -> build/package/packages/*.deb
#
# What goes into which package is said where it is installed (COMPONENT); here is what a package says of itself.
# Everything that dpkg runs on a user's machine lies in debian/.
set(debian ${CMAKE_CURRENT_LIST_DIR}/debian)
set(control ${CMAKE_BINARY_DIR}/debian)
set(SL_MAINTAINER "SpeedyLoader maintainers <maintainers@speedyloader.example>" CACHE STRING "Maintainer of the packages")

set(CPACK_GENERATOR DEB)
set(CPACK_PACKAGE_NAME speedyloader)
set(CPACK_PACKAGE_VENDOR SpeedyLoader)
set(CPACK_PACKAGE_CONTACT "${SL_MAINTAINER}")
set(CPACK_PACKAGE_DIRECTORY ${CMAKE_BINARY_DIR}/packages)
set(CPACK_SET_DESTDIR ON)  # the configuration and the units have absolute places
set(CPACK_STRIP_FILES ON)
set(CPACK_INSTALL_DEFAULT_DIRECTORY_PERMISSIONS
    OWNER_READ OWNER_WRITE OWNER_EXECUTE GROUP_READ GROUP_EXECUTE WORLD_READ WORLD_EXECUTE)
set(CPACK_DEB_COMPONENT_INSTALL ON)
set(CPACK_DEBIAN_FILE_NAME DEB-DEFAULT)
set(CPACK_DEBIAN_PACKAGE_SHLIBDEPS ON)
set(CPACK_DEBIAN_PACKAGE_SHLIBDEPS_PRIVATE_DIRS ${CMAKE_BINARY_DIR}/lib)
set(CPACK_DEBIAN_PACKAGE_CONTROL_STRICT_PERMISSION ON)
set(CPACK_DEBIAN_PACKAGE_PRIORITY optional)
set(CPACK_COMPONENTS_ALL daemon library development)
if(SL_BUILD_PYTHON)
    list(APPEND CPACK_COMPONENTS_ALL python)
endif()

# compress(FROM TO): as dpkg wants documents, the same bytes every time.
function(compress from to)
    execute_process(COMMAND gzip -9nc ${from} OUTPUT_FILE ${to} COMMAND_ERROR_IS_FATAL ANY)
    set_property(DIRECTORY APPEND PROPERTY CMAKE_CONFIGURE_DEPENDS ${from})
endfunction()

string(TIMESTAMP SL_PACKAGE_DATE "%a, %d %b %Y %H:%M:%S +0000" UTC)  # SOURCE_DATE_EPOCH, where it is set
configure_file(${debian}/changelog.in ${control}/changelog @ONLY)
compress(${control}/changelog ${control}/changelog.gz)
foreach(page speedyloaderd.8 speedyctl.1 speedyloader.toml.5)
    compress(${CMAKE_SOURCE_DIR}/docs/man/${page} ${control}/${page}.gz)
    string(REGEX MATCH ".$" section ${page})
    install(FILES ${control}/${page}.gz DESTINATION ${CMAKE_INSTALL_MANDIR}/man${section} COMPONENT daemon)
endforeach()

# sl_package(component package section summary description... ): the texts that every package has.
macro(sl_package component package section summary)
    string(TOUPPER ${component} upper)
    set(CPACK_DEBIAN_${upper}_PACKAGE_NAME ${package})
    set(CPACK_DEBIAN_${upper}_PACKAGE_SECTION ${section})
    set(CPACK_COMPONENT_${upper}_DESCRIPTION "${summary}\n${ARGN}")
    install(FILES ${debian}/copyright ${control}/changelog.gz
        DESTINATION ${CMAKE_INSTALL_DATADIR}/doc/${package} COMPONENT ${component})
endmacro()

set(same "(= ${PROJECT_VERSION})")
sl_package(daemon speedyloader-daemon utils "data loader of a host: daemon and command line"
    "SpeedyLoader reads, decodes and augments training data once for all jobs of a\nhost and hands whole batches to them in shared memory, in a reproducible order.\nThis package has the daemon with its systemd units, and speedyctl.")
set(CPACK_DEBIAN_DAEMON_PACKAGE_DEPENDS
    "libspeedyloader0 ${same}, systemd | systemd-standalone-sysusers | systemd-sysusers, systemd | systemd-standalone-tmpfiles | systemd-tmpfiles")
foreach(script daemon.postinst daemon.prerm daemon.postrm python.postinst python.prerm)
    string(REGEX REPLACE "^([a-z]+)\\.([a-z]+)$" "\\1/\\2" place ${script})
    configure_file(${debian}/${script} ${control}/${place} COPYONLY
        FILE_PERMISSIONS OWNER_READ OWNER_WRITE OWNER_EXECUTE GROUP_READ GROUP_EXECUTE WORLD_READ WORLD_EXECUTE)
endforeach()
file(WRITE ${control}/daemon/conffiles "${CMAKE_INSTALL_FULL_SYSCONFDIR}/speedyloader/speedyloader.toml\n")
set(CPACK_DEBIAN_DAEMON_PACKAGE_CONTROL_EXTRA
    ${control}/daemon/postinst ${control}/daemon/prerm ${control}/daemon/postrm ${control}/daemon/conffiles)

sl_package(library libspeedyloader0 libs "data loader of a host: client library"
    "The C library by which a job finds the daemon (or starts one of its own),\nopens a stream and takes batches without a copy. It needs the C library only.")
set(CPACK_DEBIAN_LIBRARY_PACKAGE_RECOMMENDS "speedyloader-daemon")
file(MAKE_DIRECTORY ${control}/library)
file(WRITE ${control}/library/shlibs "libspeedyloader 0 libspeedyloader0 (>= ${PROJECT_VERSION})\n")
file(WRITE ${control}/library/triggers "activate-noawait ldconfig\n")
# Written when the library is linked, from what it truly exports.
add_custom_command(OUTPUT ${control}/library/symbols DEPENDS speedyloader ${debian}/symbols.sh
    COMMAND sh ${debian}/symbols.sh $<TARGET_FILE:speedyloader> ${control}/library/symbols VERBATIM)
add_custom_target(sl_package_symbols ALL DEPENDS ${control}/library/symbols)
set(CPACK_DEBIAN_LIBRARY_PACKAGE_CONTROL_EXTRA
    ${control}/library/shlibs ${control}/library/triggers ${control}/library/symbols)

sl_package(development libspeedyloader-dev libdevel "data loader of a host: development files"
    "The header of the client library, its link for the linker, and the files by\nwhich pkg-config and CMake find both.")
set(CPACK_DEBIAN_DEVELOPMENT_PACKAGE_DEPENDS "libspeedyloader0 ${same}")
set(CPACK_DEBIAN_DEVELOPMENT_PACKAGE_SHLIBDEPS OFF)

install(FILES ${debian}/libspeedyloader0.lintian-overrides
    DESTINATION ${CMAKE_INSTALL_DATADIR}/lintian/overrides RENAME libspeedyloader0 COMPONENT library)

if(SL_BUILD_PYTHON)
    find_package(Python 3.11 REQUIRED COMPONENTS Interpreter)
    sl_package(python python3-speedyloader python "data loader of a host: Python package"
        "The package speedyloader: loaders, drop-in DataLoader for PyTorch, and batches\nas views of shared memory for NumPy, PyTorch, JAX and TensorFlow.")
    math(EXPR next "${Python_VERSION_MINOR} + 1")
    set(CPACK_DEBIAN_PYTHON_PACKAGE_DEPENDS
        "libspeedyloader0 ${same}, speedyloader-daemon ${same}, python3 (>= 3.${Python_VERSION_MINOR}~), python3 (<< 3.${next})")
    # So that Python's own tools know that it is here, and whose it is.
    configure_file(${debian}/METADATA.in ${control}/python/METADATA @ONLY)
    file(WRITE ${control}/python/INSTALLER "dpkg\n")
    install(FILES ${control}/python/METADATA ${control}/python/INSTALLER COMPONENT python
        DESTINATION lib/python3/dist-packages/speedyloader-${PROJECT_VERSION}.dist-info)
    set(CPACK_DEBIAN_PYTHON_PACKAGE_CONTROL_EXTRA ${control}/python/postinst ${control}/python/prerm)
endif()

include(CPack)
