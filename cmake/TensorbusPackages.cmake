# Debian packages, which scripts/deb makes with CPack: libtensorbus0, libtensorbus-dev and
# tensorbus-tools.

set(CPACK_GENERATOR DEB)
set(CPACK_PACKAGE_NAME tensorbus)
set(CPACK_PACKAGE_VENDOR "Tensorbus authors")
set(CPACK_PACKAGE_CONTACT "Tensorbus authors <tensorbus@localhost>")
set(CPACK_PACKAGING_INSTALL_PREFIX /usr)
set(CPACK_STRIP_FILES ON)
set(CPACK_COMPONENTS_ALL runtime development command)
set(CPACK_DEB_COMPONENT_INSTALL ON)
set(CPACK_DEBIAN_FILE_NAME DEB-DEFAULT)
set(CPACK_DEBIAN_PACKAGE_GENERATE_SHLIBS ON)
set(CPACK_DEBIAN_PACKAGE_GENERATE_SHLIBS_POLICY ">=")
if(CMAKE_SYSTEM_PROCESSOR STREQUAL "aarch64")
  set(CPACK_DEBIAN_PACKAGE_ARCHITECTURE arm64)
else()
  set(CPACK_DEBIAN_PACKAGE_ARCHITECTURE amd64)
endif()

# As for the wheels: scripts/deb links for these (TensorbusOlderSystem.cmake).
set(system_libraries "libc6 (>= 2.28), libgcc-s1 | libgcc1, libstdc++6 (>= 8)")
set(this_version "(= ${PROJECT_VERSION})")

set(CPACK_DEBIAN_RUNTIME_PACKAGE_NAME "libtensorbus${TENSORBUS_ABI_VERSION}")
set(CPACK_DEBIAN_RUNTIME_PACKAGE_SECTION libs)
set(CPACK_DEBIAN_RUNTIME_PACKAGE_DEPENDS "${system_libraries}")
set(CPACK_COMPONENT_RUNTIME_DESCRIPTION
    "Tensors from one process to another, by reference: the library")

set(CPACK_DEBIAN_DEVELOPMENT_PACKAGE_NAME libtensorbus-dev)
set(CPACK_DEBIAN_DEVELOPMENT_PACKAGE_SECTION libdevel)
set(CPACK_DEBIAN_DEVELOPMENT_PACKAGE_DEPENDS
    "${CPACK_DEBIAN_RUNTIME_PACKAGE_NAME} ${this_version}")
set(CPACK_COMPONENT_DEVELOPMENT_DESCRIPTION
    "Tensors from one process to another, by reference: the headers, for CMake and pkg-config")

set(CPACK_DEBIAN_COMMAND_PACKAGE_NAME tensorbus-tools)
set(CPACK_DEBIAN_COMMAND_PACKAGE_SECTION utils)
set(CPACK_DEBIAN_COMMAND_PACKAGE_DEPENDS
    "${CPACK_DEBIAN_RUNTIME_PACKAGE_NAME} ${this_version}, ${system_libraries}")
set(CPACK_COMPONENT_COMMAND_DESCRIPTION
    "Tensors from one process to another, by reference: the command tensorbus")

foreach(component IN ITEMS runtime development command)
  string(TOUPPER ${component} upper)
  install(FILES "${PROJECT_SOURCE_DIR}/LICENSE"
          DESTINATION "${CMAKE_INSTALL_DATADIR}/doc/${CPACK_DEBIAN_${upper}_PACKAGE_NAME}"
          RENAME copyright COMPONENT ${component})
endforeach()
install(FILES "${PROJECT_SOURCE_DIR}/packaging/tensorbus-record@.service"
        DESTINATION lib/systemd/system COMPONENT command)

include(CPack)
