# Installs libtensorbus, its public headers, a CMake package and a pkg-config file. All paths in
# them are relative, so that the installed tree can be moved, and can live in a wheel.

include(CMakePackageConfigHelpers)

# What users may include, as patterns below src/tensorbus. What these headers include must be
# here too; tests/test_package.py compiles them all against the installed tree.
set(TENSORBUS_PUBLIC_HEADERS
    tensorbus.hpp
    platform/error.hpp
    platform/export.hpp
    platform/finding.hpp
    platform/id.hpp
    memory/cuda_probe.hpp
    tensor/device.hpp
    tensor/dims.hpp
    tensor/dtype.hpp
    tensor/layout.hpp
    tensor/message_type.hpp
    tensor/origin.hpp
    tensor/value.hpp
    bus/doctor.hpp
    bus/handle.hpp
    bus/listing.hpp
    bus/loan.hpp
    bus/message.hpp
    bus/message_fields.hpp
    bus/message_struct.hpp
    bus/options.hpp
    bus/participant.hpp
    bus/publisher.hpp
    bus/queue.hpp
    bus/sample.hpp
    bus/share.hpp
    bus/standard_messages.hpp
    bus/subscriber.hpp
    bus/typed_message.hpp)

list(TRANSFORM TENSORBUS_PUBLIC_HEADERS PREPEND "${TENSORBUS_SOURCE_DIR}/")
file(GLOB public_headers CONFIGURE_DEPENDS ${TENSORBUS_PUBLIC_HEADERS})
foreach(header IN LISTS public_headers)
  cmake_path(RELATIVE_PATH header BASE_DIRECTORY "${PROJECT_SOURCE_DIR}/src"
             OUTPUT_VARIABLE relative_header)
  cmake_path(GET relative_header PARENT_PATH folder)
  install(FILES "${header}" DESTINATION "${CMAKE_INSTALL_INCLUDEDIR}/${folder}")
endforeach()
install(DIRECTORY "${PROJECT_SOURCE_DIR}/include/tensorbus"
        DESTINATION "${CMAKE_INSTALL_INCLUDEDIR}" FILES_MATCHING PATTERN "*.h")
install(FILES "${TENSORBUS_GENERATED_DIR}/tensorbus/version.hpp"
        DESTINATION "${CMAKE_INSTALL_INCLUDEDIR}/tensorbus")

set(namelink)
if(SKBUILD)
  set(namelink NAMELINK_SKIP)
endif()
install(TARGETS tensorbus EXPORT tensorbusTargets
        LIBRARY DESTINATION "${CMAKE_INSTALL_LIBDIR}" ${namelink})

set(package_dir "${CMAKE_INSTALL_LIBDIR}/cmake/tensorbus")
install(EXPORT tensorbusTargets NAMESPACE tensorbus:: DESTINATION "${package_dir}")
configure_package_config_file("${PROJECT_SOURCE_DIR}/cmake/tensorbusConfig.cmake.in"
                              "${PROJECT_BINARY_DIR}/tensorbusConfig.cmake"
                              INSTALL_DESTINATION "${package_dir}")
write_basic_package_version_file("${PROJECT_BINARY_DIR}/tensorbusConfigVersion.cmake"
                                 COMPATIBILITY SameMinorVersion)
install(FILES "${PROJECT_BINARY_DIR}/tensorbusConfig.cmake"
              "${PROJECT_BINARY_DIR}/tensorbusConfigVersion.cmake"
        DESTINATION "${package_dir}")

# In a wheel there is no libtensorbus.so for -ltensorbus to find, so no pkg-config file either.
if(NOT SKBUILD)
  set(pkgconfig_dir "${CMAKE_INSTALL_LIBDIR}/pkgconfig")
  cmake_path(RELATIVE_PATH CMAKE_INSTALL_PREFIX
             BASE_DIRECTORY "${CMAKE_INSTALL_PREFIX}/${pkgconfig_dir}"
             OUTPUT_VARIABLE prefix_from_pkgconfig)
  configure_file("${PROJECT_SOURCE_DIR}/cmake/tensorbus.pc.in"
                 "${PROJECT_BINARY_DIR}/tensorbus.pc" @ONLY)
  install(FILES "${PROJECT_BINARY_DIR}/tensorbus.pc" DESTINATION "${pkgconfig_dir}")
endif()
