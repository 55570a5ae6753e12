# Every example with a CMakeLists.txt is a project of its own, which asks for the installed package
# unless tensorbus::tensorbus is there already; so the same file builds here and anywhere else.

file(GLOB example_projects CONFIGURE_DEPENDS "${PROJECT_SOURCE_DIR}/examples/*/CMakeLists.txt")
foreach(project_file IN LISTS example_projects)
  cmake_path(GET project_file PARENT_PATH folder)
  add_subdirectory("${folder}")
endforeach()
