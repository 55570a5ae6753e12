option(TENSORBUS_BUILD_TESTS "Build the C++ tests (needs GoogleTest)" OFF)
option(TENSORBUS_BUILD_BENCH "Build the C++ benchmarks" OFF)
option(TENSORBUS_BUILD_EXAMPLES "Build the C++ examples" OFF)
option(TENSORBUS_BUILD_PYTHON "Build the Python module (pip does this)" OFF)
find_package(CLI11 2.1 CONFIG QUIET)
set(command_default ${CLI11_FOUND})
# The tests of another processor do not run it, and a project that has this one in itself has no use
# for it.
if((CMAKE_CROSSCOMPILING AND NOT SKBUILD) OR NOT PROJECT_IS_TOP_LEVEL)
  set(command_default OFF)
endif()
if(NOT CLI11_FOUND AND PROJECT_IS_TOP_LEVEL)
  message(WARNING "the command tensorbus is not built: it needs CLI11 (Debian: libcli11-dev)")
endif()
option(TENSORBUS_BUILD_COMMAND "Build the command tensorbus (needs CLI11)" ${command_default})
option(TENSORBUS_BUILD_PACKAGES "Prepare Debian packages, which cpack makes (scripts/deb)" OFF)
option(TENSORBUS_BUILD_FUZZERS "Build the fuzzers (needs Clang and its libFuzzer)" OFF)
option(TENSORBUS_KILL_POINTS "Compile in the places at which a test can kill a process"
       ${TENSORBUS_BUILD_TESTS})
option(TENSORBUS_WERROR "Warnings are errors, with the compiler that CI uses (GCC 12)" OFF)
set(TENSORBUS_SANITIZE "" CACHE STRING "address (with undefined behaviour), thread, or nothing")
set_property(CACHE TENSORBUS_SANITIZE PROPERTY STRINGS "" address thread)

if(PROJECT_IS_TOP_LEVEL AND NOT CMAKE_BUILD_TYPE AND NOT CMAKE_CONFIGURATION_TYPES)
  set(CMAKE_BUILD_TYPE Release CACHE STRING "" FORCE)
endif()

set(CMAKE_CXX_STANDARD 20)
set(CMAKE_CXX_STANDARD_REQUIRED ON)
set(CMAKE_CXX_EXTENSIONS OFF)
set(CMAKE_CXX_VISIBILITY_PRESET hidden)
set(CMAKE_VISIBILITY_INLINES_HIDDEN ON)
set(CMAKE_POSITION_INDEPENDENT_CODE ON)
set(CMAKE_EXPORT_COMPILE_COMMANDS ON)

# Carried by our own targets only, never by the installed one.
add_library(tensorbus_warnings INTERFACE)
target_compile_options(tensorbus_warnings INTERFACE -Wall -Wextra -Wpedantic -Wshadow)
if(CMAKE_CXX_COMPILER_ID STREQUAL "GNU" AND CMAKE_CXX_COMPILER_VERSION MATCHES "^12\\.")
  # -Wrestrict: GCC 12 finds overlaps inside std::string that are not there (GCC bug 105651).
  target_compile_options(tensorbus_warnings INTERFACE -Wno-restrict
                                                      $<$<BOOL:${TENSORBUS_WERROR}>:-Werror>)
endif()

if(TENSORBUS_SANITIZE STREQUAL "address")
  # vptr: to see whether memory can be read it makes a pipe, and takes it for bad where a test has
  # left no descriptor.
  set(sanitize_options -fsanitize=address,undefined -fno-sanitize=vptr
                       -fno-sanitize-recover=undefined)
elseif(TENSORBUS_SANITIZE STREQUAL "thread")
  # -Wtsan: the sanitizer does not model atomic_thread_fence, and GCC says so at every fence.
  set(sanitize_options -fsanitize=thread -Wno-tsan)
elseif(TENSORBUS_SANITIZE)
  message(FATAL_ERROR "TENSORBUS_SANITIZE is '${TENSORBUS_SANITIZE}': expected address or thread")
endif()
if(TENSORBUS_BUILD_FUZZERS)  # the code that they look into counts its edges
  add_compile_options(-fsanitize=fuzzer-no-link)
endif()
if(TENSORBUS_SANITIZE)
  add_compile_options(${sanitize_options} -fno-omit-frame-pointer)
  add_link_options(${sanitize_options})
endif()
