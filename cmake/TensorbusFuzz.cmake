# From each fuzz/<what>_fuzz.cpp a fuzzer, where those are wanted, and beside the tests a program
# that replays its corpus and what it once found, for which any compiler will do.

file(GLOB fuzz_sources CONFIGURE_DEPENDS "${PROJECT_SOURCE_DIR}/fuzz/*_fuzz.cpp")
add_custom_target(tensorbus_fuzzers)

function(tensorbus_add_fuzz_program name)
  add_executable(${name} ${ARGN})
  target_include_directories(${name} PRIVATE "${PROJECT_SOURCE_DIR}")
  target_link_libraries(${name} PRIVATE tensorbus_internal tensorbus_warnings)
  set_target_properties(${name} PROPERTIES RUNTIME_OUTPUT_DIRECTORY "${PROJECT_BINARY_DIR}/bin")
endfunction()

foreach(source IN LISTS fuzz_sources)
  cmake_path(GET source STEM name)
  string(REGEX REPLACE "_fuzz$" "" what "${name}")
  if(TENSORBUS_BUILD_FUZZERS)
    tensorbus_add_fuzz_program(${name} "${source}")
    target_link_options(${name} PRIVATE -fsanitize=fuzzer)
    add_dependencies(tensorbus_fuzzers ${name})
  endif()
  if(TENSORBUS_BUILD_TESTS)
    tensorbus_add_fuzz_program(${what}_replay "${source}" "${PROJECT_SOURCE_DIR}/fuzz/replay.cpp")
    add_test(NAME fuzz/${what} COMMAND ${what}_replay "${PROJECT_SOURCE_DIR}/fuzz/corpus/${what}"
                                       "${PROJECT_SOURCE_DIR}/fuzz/regressions/${what}")
    set_tests_properties(fuzz/${what} PROPERTIES TIMEOUT 120 LABELS fuzz)
  endif()
endforeach()
