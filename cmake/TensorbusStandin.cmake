# A stand-in for libcuda.so.1, to test our use of the driver without a GPU, and its own tests.

set(TENSORBUS_STANDIN_DIR "${PROJECT_SOURCE_DIR}/tests/cuda/standin")
file(GLOB standin_sources CONFIGURE_DEPENDS "${TENSORBUS_STANDIN_DIR}/*.cpp")
list(FILTER standin_sources EXCLUDE REGEX "_test\\.cpp$")

add_library(cuda_standin SHARED ${standin_sources})
target_include_directories(cuda_standin PUBLIC "${TENSORBUS_STANDIN_DIR}" "${PROJECT_SOURCE_DIR}/src")
target_link_libraries(cuda_standin PRIVATE tensorbus_warnings Threads::Threads)
# Never unloaded: its streams' threads run in it.
target_link_options(cuda_standin PRIVATE
                    -Wl,-z,nodelete -Wl,--version-script=${TENSORBUS_STANDIN_DIR}/exports.map)
set_target_properties(cuda_standin PROPERTIES LINK_DEPENDS "${TENSORBUS_STANDIN_DIR}/exports.map")
set_target_properties(cuda_standin PROPERTIES OUTPUT_NAME cuda SOVERSION 1
                                              LIBRARY_OUTPUT_DIRECTORY "${TENSORBUS_TEST_BIN_DIR}/cuda")

tensorbus_add_tests(standin "${TENSORBUS_STANDIN_DIR}/tests")
if(TARGET standin_tests)
  target_link_libraries(standin_tests PRIVATE cuda_standin)
endif()

# Compares what is declared of CUDA's interface with cuda.h, where that is installed.
file(GLOB cuda_include_hints /usr/local/cuda*/include)
find_path(TENSORBUS_CUDA_INCLUDE_DIR cuda.h HINTS ${cuda_include_hints})
tensorbus_add_tests(cuda "${PROJECT_SOURCE_DIR}/tests/cuda")
if(TARGET cuda_tests)
  target_link_libraries(cuda_tests PRIVATE cuda_standin)
endif()
if(TENSORBUS_CUDA_INCLUDE_DIR)
  target_include_directories(cuda_tests SYSTEM PRIVATE "${TENSORBUS_CUDA_INCLUDE_DIR}")
endif()

# The benchmarks of GPUs, to see that they run.
if(NOT TENSORBUS_SANITIZE)
  foreach(name IN ITEMS cuda_copies cuda_order cuda_round_trip)
    add_executable(${name}_trial "${PROJECT_SOURCE_DIR}/bench/${name}_bench.cpp")
    target_include_directories(${name}_trial PRIVATE "${PROJECT_SOURCE_DIR}/bench")
    target_link_libraries(${name}_trial PRIVATE tensorbus_inside tensorbus_warnings)
    add_test(NAME cuda/${name}_trial COMMAND ${name}_trial --quick)
    set_tests_properties(cuda/${name}_trial PROPERTIES TIMEOUT 120 LABELS cuda
                         ENVIRONMENT "TENSORBUS_CUDA_DRIVER=$<TARGET_FILE:cuda_standin>")
  endforeach()
endif()
