# Installs libtensorbus, its public headers, a CMake package and a pkg-config file. All paths in
# them are relative, so that the installed tree can be moved, and can live in a wheel. Each file is
# of a component, of which packages are made (TensorbusPackages.cmake): `runtime`, `development` or
# `command`.

include(CMakePackageConfigHelpers)

# All that users may include; tests/house/test_package.py compiles each of them against the
# installed tree.
install(DIRECTORY "${PROJECT_SOURCE_DIR}/include/tensorbus"
        DESTINATION "${CMAKE_INSTALL_INCLUDEDIR}" COMPONENT development
        FILES_MATCHING PATTERN "*.h" PATTERN "*.hpp")
install(FILES "${TENSORBUS_GENERATED_DIR}/tensorbus/version.hpp"
        DESTINATION "${CMAKE_INSTALL_INCLUDEDIR}/tensorbus" COMPONENT development)

set(namelink NAMELINK_COMPONENT development)
if(SKBUILD)  # a wheel holds no symbolic links
  set(namelink NAMELINK_SKIP)
endif()
install(TARGETS tensorbus EXPORT tensorbusTargets
        LIBRARY DESTINATION "${CMAKE_INSTALL_LIBDIR}" COMPONENT runtime ${namelink})

set(package_dir "${CMAKE_INSTALL_LIBDIR}/cmake/tensorbus")
install(EXPORT tensorbusTargets NAMESPACE tensorbus:: DESTINATION "${package_dir}"
        COMPONENT development)
configure_package_config_file("${PROJECT_SOURCE_DIR}/cmake/tensorbusConfig.cmake.in"
                              "${PROJECT_BINARY_DIR}/tensorbusConfig.cmake"
                              INSTALL_DESTINATION "${package_dir}")
write_basic_package_version_file("${PROJECT_BINARY_DIR}/tensorbusConfigVersion.cmake"
                                 COMPATIBILITY SameMinorVersion)
install(FILES "${PROJECT_BINARY_DIR}/tensorbusConfig.cmake"
              "${PROJECT_BINARY_DIR}/tensorbusConfigVersion.cmake"
        DESTINATION "${package_dir}" COMPONENT development)

set(pkgconfig_dir "${CMAKE_INSTALL_LIBDIR}/pkgconfig")
cmake_path(RELATIVE_PATH CMAKE_INSTALL_PREFIX
           BASE_DIRECTORY "${CMAKE_INSTALL_PREFIX}/${pkgconfig_dir}"
           OUTPUT_VARIABLE prefix_from_pkgconfig)
# As find_package does: no warnings about our headers in programs of others. Of a folder that the
# compiler searches anyway, -isystem would change the order, and pkg-config leaves out -I.
set(pkgconfig_cflags [[-isystem ${includedir}]])
if(CMAKE_INSTALL_FULL_INCLUDEDIR IN_LIST CMAKE_CXX_IMPLICIT_INCLUDE_DIRECTORIES)
  set(pkgconfig_cflags [[-I${includedir}]])
endif()
set(pkgconfig_libs [[-L${libdir} -ltensorbus]])
if(SKBUILD)  # no namelink, and the loader looks into no package of Python
  set(pkgconfig_libs [[-L${libdir} -Wl,-rpath,${libdir} ]])
  string(APPEND pkgconfig_libs "-l:libtensorbus.so.${TENSORBUS_ABI_VERSION}")
endif()
configure_file("${PROJECT_SOURCE_DIR}/cmake/tensorbus.pc.in"
               "${PROJECT_BINARY_DIR}/tensorbus.pc" @ONLY)
install(FILES "${PROJECT_BINARY_DIR}/tensorbus.pc" DESTINATION "${pkgconfig_dir}"
        COMPONENT development)
