# The command `tensorbus`, over the public headers.

file(GLOB command_sources CONFIGURE_DEPENDS "${TENSORBUS_SOURCE_DIR}/cli/*.cpp"
     "${TENSORBUS_SOURCE_DIR}/cli/*/*.cpp")
add_executable(tensorbus_command ${command_sources})
target_link_libraries(tensorbus_command PRIVATE tensorbus_inside CLI11::CLI11 tensorbus_warnings)
set_target_properties(tensorbus_command PROPERTIES
                      OUTPUT_NAME tensorbus
                      RUNTIME_OUTPUT_DIRECTORY "${PROJECT_BINARY_DIR}/bin")
cmake_path(RELATIVE_PATH CMAKE_INSTALL_FULL_LIBDIR BASE_DIRECTORY "${CMAKE_INSTALL_FULL_BINDIR}"
           OUTPUT_VARIABLE lib_from_bin)
set_target_properties(tensorbus_command PROPERTIES INSTALL_RPATH "$ORIGIN/${lib_from_bin}")
install(TARGETS tensorbus_command RUNTIME DESTINATION "${CMAKE_INSTALL_BINDIR}"
        COMPONENT command)
