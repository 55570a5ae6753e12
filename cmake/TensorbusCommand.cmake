# The command `tensorbus`, over the public headers.

# Only CLI11's own folder is searched for headers: /usr/include is wrong for another processor.
get_target_property(cli11_folders CLI11::CLI11 INTERFACE_INCLUDE_DIRECTORIES)
find_path(cli11_headers CLI/CLI.hpp HINTS ${cli11_folders} REQUIRED)
file(MAKE_DIRECTORY "${PROJECT_BINARY_DIR}/cli11")
file(CREATE_LINK "${cli11_headers}/CLI" "${PROJECT_BINARY_DIR}/cli11/CLI" SYMBOLIC)

file(GLOB command_sources CONFIGURE_DEPENDS "${TENSORBUS_SOURCE_DIR}/cli/*.cpp"
     "${TENSORBUS_SOURCE_DIR}/cli/*/*.cpp")
add_executable(tensorbus_command ${command_sources})
target_link_libraries(tensorbus_command PRIVATE tensorbus_inside tensorbus_warnings)
target_include_directories(tensorbus_command SYSTEM PRIVATE "${PROJECT_BINARY_DIR}/cli11")
# Of -O3 it would become a third larger, in each wheel.
target_compile_options(tensorbus_command PRIVATE $<$<CONFIG:Release>:-O2>)
# It checks no files, and older systems have no std::filesystem.
target_compile_definitions(tensorbus_command PRIVATE CLI11_HAS_FILESYSTEM=0)
tensorbus_link_for_older_system(tensorbus_command)
cmake_path(RELATIVE_PATH CMAKE_INSTALL_FULL_LIBDIR BASE_DIRECTORY "${CMAKE_INSTALL_FULL_BINDIR}"
           OUTPUT_VARIABLE lib_from_bin)
set(places "$ORIGIN/${lib_from_bin}")
if(SKBUILD)
  # pip decides where packages lie, as seen from <prefix>/bin: in a folder of each CPython. A folder
  # of `pip install --target` has both.
  set(python ${Python_VERSION_MAJOR}.${Python_VERSION_MINOR})
  set(pythons ${python} ${python}t)
  if(TENSORBUS_STABLE_ABI)
    set(pythons 3.12 3.13 3.14 3.15 3.16 3.17 3.18 3.19 3.20)
  endif()
  foreach(python IN LISTS pythons)
    foreach(lib IN ITEMS lib lib64)
      foreach(packages IN ITEMS site-packages dist-packages)
        list(PREPEND places "$ORIGIN/../${lib}/python${python}/${packages}/tensorbus/lib")
      endforeach()
    endforeach()
  endforeach()
  list(PREPEND places "$ORIGIN/../tensorbus/lib")
endif()
set_target_properties(tensorbus_command PROPERTIES
                      OUTPUT_NAME tensorbus
                      RUNTIME_OUTPUT_DIRECTORY "${PROJECT_BINARY_DIR}/bin"
                      INSTALL_RPATH "${places}")
set(not_in_wheels)
if(SKBUILD)
  set(not_in_wheels EXCLUDE_FROM_ALL)
endif()
install(TARGETS tensorbus_command RUNTIME DESTINATION "${CMAKE_INSTALL_BINDIR}" COMPONENT command
        ${not_in_wheels})
if(SKBUILD_SCRIPTS_DIR)
  install(TARGETS tensorbus_command RUNTIME DESTINATION "${SKBUILD_SCRIPTS_DIR}" COMPONENT scripts)
endif()

# Where shells look for the completion of the programs in <prefix>/bin.
set(share "${CMAKE_INSTALL_DATADIR}")
if(SKBUILD_DATA_DIR)
  set(share "${SKBUILD_DATA_DIR}/share")
endif()
set(zsh "${share}/zsh/site-functions")
if(TENSORBUS_BUILD_PACKAGES)  # Debian's zsh looks there
  set(zsh "${share}/zsh/vendor-completions")
endif()
set(completion "${TENSORBUS_SOURCE_DIR}/cli/completion")
install(FILES "${completion}/tensorbus.bash" DESTINATION "${share}/bash-completion/completions"
        RENAME tensorbus COMPONENT command)
install(FILES "${completion}/_tensorbus" DESTINATION "${zsh}" COMPONENT command)
install(FILES "${completion}/tensorbus.fish" DESTINATION "${share}/fish/vendor_completions.d"
        COMPONENT command)
