# One test program for each folder of tests/unit, with the folders in it, which are those of
# src/tensorbus; one for each of the other folders of C++ tests; and one program for each
# tests/system/*_process.cpp, which the tests start and kill.

find_package(GTest REQUIRED)
include(GoogleTest)

set(TENSORBUS_TEST_BIN_DIR "${PROJECT_BINARY_DIR}/bin")
add_custom_target(tensorbus_test_processes)

# tensorbus_compile_quickly(TARGET [PRIVATE HEADER | REUSE_FROM OTHER_TARGET]): a test program, of
# which there is much to compile and little to make fast.
function(tensorbus_compile_quickly name)
  # Of GCC's own: a failure's order may be stronger than a success's since C++17.
  target_compile_options(${name} PRIVATE $<$<CONFIG:RelWithDebInfo>:-O0>
                                         $<$<CXX_COMPILER_ID:GNU>:-Wno-invalid-memory-model>)
  tensorbus_parse_once(${name} ${ARGN})
endfunction()

# GoogleTest's header, parsed once for all test programs. If one of them had it, the others could not
# be built without building that one. A program, because a library would be compiled with -fPIC.
file(CONFIGURE OUTPUT "${PROJECT_BINARY_DIR}/test_headers.cpp" CONTENT "int main() {}\n")
add_executable(tensorbus_test_headers "${PROJECT_BINARY_DIR}/test_headers.cpp")
target_link_libraries(tensorbus_test_headers PRIVATE tensorbus_warnings GTest::gtest)
tensorbus_compile_quickly(tensorbus_test_headers PRIVATE <gtest/gtest.h>)

file(GLOB process_sources CONFIGURE_DEPENDS "${PROJECT_SOURCE_DIR}/tests/system/*_process.cpp")
foreach(source IN LISTS process_sources)
  cmake_path(GET source STEM name)
  add_executable(${name} "${source}")
  target_include_directories(${name} PRIVATE "${PROJECT_SOURCE_DIR}")
  target_link_libraries(${name} PRIVATE tensorbus_internal tensorbus_warnings)
  set_target_properties(${name} PROPERTIES RUNTIME_OUTPUT_DIRECTORY "${TENSORBUS_TEST_BIN_DIR}")
  add_dependencies(tensorbus_test_processes ${name})
endforeach()

# Among them are some of seconds. They start first, after the storm: so the last ones are short.
set(TENSORBUS_LONG_TESTS allocation model system)

# tensorbus_add_tests(LABEL FOLDER...): a program of the tests in these folders.
function(tensorbus_add_tests label)
  list(TRANSFORM ARGN APPEND "/*_test.cpp" OUTPUT_VARIABLE patterns)
  file(GLOB sources CONFIGURE_DEPENDS ${patterns})
  if(NOT sources)
    return()
  endif()
  set(name ${label}_tests)
  add_executable(${name} ${sources})
  target_link_libraries(${name} PRIVATE tensorbus_internal tensorbus_warnings GTest::gtest_main)
  target_include_directories(${name} PRIVATE "${PROJECT_SOURCE_DIR}")
  target_compile_definitions(${name} PRIVATE TENSORBUS_TEST_BIN_DIR="${TENSORBUS_TEST_BIN_DIR}")
  set_target_properties(${name} PROPERTIES RUNTIME_OUTPUT_DIRECTORY "${TENSORBUS_TEST_BIN_DIR}")
  add_dependencies(${name} tensorbus_test_processes)
  if(name STREQUAL "model_tests") # which walk through millions of states
    target_compile_options(${name} PRIVATE $<$<CONFIG:RelWithDebInfo>:-O2>)
  else()
    tensorbus_compile_quickly(${name} REUSE_FROM tensorbus_test_headers)
  endif()
  set(cost 0)
  if(label IN_LIST TENSORBUS_LONG_TESTS)
    set(cost 1)
  endif()
  set(timeout 120)
  if(label MATCHES "model|weak_memory") # They wait for nothing: under a sanitizer they take minutes.
    set(timeout 600)
  endif()
  gtest_discover_tests(${name} DISCOVERY_MODE PRE_TEST TEST_PREFIX "${label}/"
                       PROPERTIES TIMEOUT ${timeout} LABELS ${label} COST ${cost})
endfunction()

foreach(layer IN LISTS TENSORBUS_LAYERS)
  tensorbus_add_tests(${layer} "${PROJECT_SOURCE_DIR}/tests/unit/${layer}"
                      "${PROJECT_SOURCE_DIR}/tests/unit/${layer}/*")
endforeach()
# It compares a page with the code.
set_source_files_properties("${PROJECT_SOURCE_DIR}/tests/unit/link/wire/control_messages_test.cpp"
                            PROPERTIES COMPILE_DEFINITIONS
                                       TENSORBUS_DOCS_DIR="${PROJECT_SOURCE_DIR}/docs")
tensorbus_add_tests(model "${PROJECT_SOURCE_DIR}/tests/model")
# The code of the rings and the wake page, with atomics of a model (docs/internals/evidence.md).
# Nothing else is compiled so, and the archive has it with std::atomic: from there comes the rest.
tensorbus_add_tests(weak_memory "${PROJECT_SOURCE_DIR}/tests/model/weak_memory")
file(GLOB weak_memory_sources CONFIGURE_DEPENDS
     "${PROJECT_SOURCE_DIR}/tests/model/weak_memory/*.cpp")
set(modelled_sources
    "${PROJECT_SOURCE_DIR}/src/tensorbus/link/ring/sample_ring.cpp"
    "${PROJECT_SOURCE_DIR}/src/tensorbus/link/wake/wake.cpp"
    "${PROJECT_SOURCE_DIR}/src/tensorbus/platform/waiting/life_word.cpp")
target_sources(weak_memory_tests PRIVATE ${weak_memory_sources} ${modelled_sources})
# Each alone in the archive: what the tests take from there must not bring one of them.
set_source_files_properties(${modelled_sources} PROPERTIES SKIP_UNITY_BUILD_INCLUSION ON)
target_compile_definitions(weak_memory_tests PRIVATE TENSORBUS_ATOMICS_OF_A_MODEL)
target_compile_options(
  weak_memory_tests PRIVATE -O2 -include
                            "${PROJECT_SOURCE_DIR}/tests/model/weak_memory/modelled_atomic.hpp")
tensorbus_add_tests(system "${PROJECT_SOURCE_DIR}/tests/system")
tensorbus_add_tests(bench "${PROJECT_SOURCE_DIR}/bench/harness")
# In a program of its own: its operator new fails when told to.
tensorbus_add_tests(allocation "${PROJECT_SOURCE_DIR}/tests/system/allocation")
# Compilers may leave out an allocation that nobody needs, which here is one that has to fail.
set_source_files_properties("${PROJECT_SOURCE_DIR}/tests/system/allocation/failing_new_test.cpp"
                            PROPERTIES COMPILE_OPTIONS -O0 SKIP_PRECOMPILE_HEADERS ON)

# The public C++ API, through what the shared library exports: it sees include/ alone.
file(GLOB public_test_sources CONFIGURE_DEPENDS "${PROJECT_SOURCE_DIR}/tests/public/*.cpp")
add_executable(public_tests ${public_test_sources})
target_link_libraries(public_tests PRIVATE tensorbus tensorbus_warnings GTest::gtest)
set_target_properties(public_tests PROPERTIES RUNTIME_OUTPUT_DIRECTORY "${TENSORBUS_TEST_BIN_DIR}")
tensorbus_compile_quickly(public_tests PRIVATE "${PROJECT_SOURCE_DIR}/tests/public/support.hpp")
target_compile_definitions(
  public_tests
  PRIVATE TENSORBUS_TIME_MATCHER_CASES="${PROJECT_SOURCE_DIR}/tests/public/time_matcher_cases.txt")
gtest_discover_tests(public_tests DISCOVERY_MODE PRE_TEST TEST_PREFIX "public/"
                     PROPERTIES TIMEOUT 120 LABELS public)

# The C interface, from C, through what the shared library exports.
enable_language(C)
function(tensorbus_add_c_tests name source)
  add_executable(${name} "${PROJECT_SOURCE_DIR}/tests/c/${source}")
  target_link_libraries(${name} PRIVATE tensorbus Threads::Threads)
  target_compile_options(${name} PRIVATE -Wall -Wextra -Wpedantic
                         $<$<BOOL:${TENSORBUS_WERROR}>:-Werror>)
  set_target_properties(${name} PROPERTIES C_STANDARD 11 C_EXTENSIONS OFF
                        RUNTIME_OUTPUT_DIRECTORY "${TENSORBUS_TEST_BIN_DIR}")
  foreach(test IN LISTS ARGN)
    add_test(NAME c/${test} COMMAND ${name} ${test})
    set_tests_properties(c/${test} PROPERTIES TIMEOUT 120 LABELS c)
  endforeach()
endfunction()
tensorbus_add_c_tests(c_interface_test interface_test.c publish isolated wait receive_many rows ends queue share
                      list inspect participants mistakes messages sizes types)
tensorbus_add_c_tests(c_file_test file_test.c files named_files wrong_files)
tensorbus_add_c_tests(c_null_test null_test.c null)

include(TensorbusStandin)
add_dependencies(public_tests cuda_standin)
target_compile_definitions(public_tests
                           PRIVATE TENSORBUS_STANDIN="$<TARGET_FILE:cuda_standin>")

# Kills processes at random: some hundred here, ten thousand by scripts/kills.
file(GLOB kills_sources CONFIGURE_DEPENDS "${PROJECT_SOURCE_DIR}/tests/chaos/kills/*.cpp")
add_executable(kill_storm ${kills_sources})
target_include_directories(kill_storm PRIVATE "${PROJECT_SOURCE_DIR}")
target_link_libraries(kill_storm PRIVATE tensorbus_internal tensorbus_warnings)
set_target_properties(kill_storm PROPERTIES RUNTIME_OUTPUT_DIRECTORY "${TENSORBUS_TEST_BIN_DIR}")
add_test(NAME system/kill_storm COMMAND kill_storm --kills 200)
set_tests_properties(system/kill_storm PROPERTIES TIMEOUT 300 LABELS system COST 2)
