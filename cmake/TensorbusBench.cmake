# One program for each bench/NAME_bench.cpp, and the files of bench/NAME where there are any;
# bench/run.py runs them all, but for instructions_bench, which is for bench/instructions.py.

file(GLOB bench_sources CONFIGURE_DEPENDS "${PROJECT_SOURCE_DIR}/bench/*_bench.cpp")
foreach(source IN LISTS bench_sources)
  cmake_path(GET source STEM name)
  string(REGEX REPLACE "_bench$" "" folder "${name}")
  file(GLOB parts CONFIGURE_DEPENDS "${PROJECT_SOURCE_DIR}/bench/${folder}/*.cpp")
  add_executable(${name} "${source}" ${parts})
  target_include_directories(${name} PRIVATE "${PROJECT_SOURCE_DIR}/bench")
  # The inner classes and those of the public headers have the same names.
  set_target_properties(${name} PROPERTIES UNITY_BUILD OFF)
  target_link_libraries(${name} PRIVATE tensorbus_inside tensorbus_warnings)
  set_target_properties(${name} PROPERTIES RUNTIME_OUTPUT_DIRECTORY "${PROJECT_BINARY_DIR}/bin")
endforeach()

# Peers in C++, where they are installed.
find_package(iceoryx_posh CONFIG QUIET)
if(iceoryx_posh_FOUND)
  target_link_libraries(cpp_peers_bench PRIVATE iceoryx_posh::iceoryx_posh)
  target_compile_definitions(cpp_peers_bench PRIVATE BENCH_ICEORYX)
endif()
