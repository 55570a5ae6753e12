# The core and its C interface, compiled once: tensorbus (shared, what users link), tensorbus_internal (static, in which
# tests also see what the shared library hides), and tensorbus_inside (the shared one with the classes that it exports
# for tensorbus._core and the benchmarks).

set(TENSORBUS_SOURCE_DIR "${PROJECT_SOURCE_DIR}/src/tensorbus")
set(TENSORBUS_GENERATED_DIR "${PROJECT_BINARY_DIR}/generated")
set(TENSORBUS_LAYERS platform memory device tensor link bus recording)

set(core_sources)
foreach(layer IN LISTS TENSORBUS_LAYERS ITEMS c)
  file(GLOB_RECURSE layer_sources CONFIGURE_DEPENDS "${TENSORBUS_SOURCE_DIR}/${layer}/*.cpp")
  list(APPEND core_sources ${layer_sources})
endforeach()

# Of the C interface: it moves on when a program that was compiled before would break.
set(TENSORBUS_ABI_VERSION ${PROJECT_VERSION_MAJOR})
configure_file("${PROJECT_SOURCE_DIR}/cmake/exports.map.in"
               "${TENSORBUS_GENERATED_DIR}/exports.map" @ONLY)
configure_file("${PROJECT_SOURCE_DIR}/cmake/version.hpp.in"
               "${TENSORBUS_GENERATED_DIR}/tensorbus/version.hpp" @ONLY)

find_package(Threads REQUIRED)

add_library(tensorbus_objects OBJECT ${core_sources})
target_include_directories(tensorbus_objects PUBLIC "${PROJECT_SOURCE_DIR}/src"
                                                    "${PROJECT_SOURCE_DIR}/include"
                                                    "${TENSORBUS_GENERATED_DIR}")
target_compile_definitions(tensorbus_objects PRIVATE TENSORBUS_BUILD
                                             PUBLIC TENSORBUS_KILL_POINTS=$<BOOL:${TENSORBUS_KILL_POINTS}>)
target_link_libraries(tensorbus_objects PUBLIC Threads::Threads PRIVATE tensorbus_warnings)

# tensorbus_parse_once(TARGET [PRIVATE HEADER... | REUSE_FROM OTHER_TARGET]): most of what takes time
# to compile are the headers that most files include. Not under ccache: that stores nothing that was
# compiled so, unless it is told to be sloppy; and there each file is seen to include what it uses.
function(tensorbus_parse_once name)
  if(NOT CMAKE_CXX_COMPILER_LAUNCHER MATCHES "cache")
    target_precompile_headers(${name} ${ARGN})
  endif()
endfunction()
tensorbus_parse_once(
  tensorbus_objects PRIVATE <algorithm> <array> <atomic> <chrono> <functional> <map> <memory> <mutex>
  <optional> <span> <string> <thread> <variant> <vector>)
# GCC 12 finds writes beyond the end inside std::string, as with -Wrestrict (TensorbusOptions.cmake),
# where <string> was precompiled.
set_source_files_properties(
  "${TENSORBUS_SOURCE_DIR}/tensor/descriptor.cpp" "${TENSORBUS_SOURCE_DIR}/tensor/files/safetensors_file.cpp"
  PROPERTIES SKIP_PRECOMPILE_HEADERS ON)

add_library(tensorbus SHARED)
add_library(tensorbus::tensorbus ALIAS tensorbus)
target_link_libraries(tensorbus PRIVATE tensorbus_objects)
target_compile_features(tensorbus PUBLIC cxx_std_20)
target_include_directories(
  tensorbus PUBLIC "$<BUILD_INTERFACE:${PROJECT_SOURCE_DIR}/include>"
                   "$<BUILD_INTERFACE:${TENSORBUS_GENERATED_DIR}>"
                   "$<INSTALL_INTERFACE:${CMAKE_INSTALL_INCLUDEDIR}>")
add_library(tensorbus_inside INTERFACE)
target_link_libraries(tensorbus_inside INTERFACE tensorbus)
target_include_directories(tensorbus_inside INTERFACE "${PROJECT_SOURCE_DIR}/src")

# No VERSION property: wheels hold no symbolic links, and each would become a copy of the library.
set_target_properties(tensorbus PROPERTIES SOVERSION ${TENSORBUS_ABI_VERSION}
                                           LINKER_LANGUAGE CXX
                                           LINK_DEPENDS "${TENSORBUS_GENERATED_DIR}/exports.map")
target_link_options(tensorbus PRIVATE
                    "LINKER:--version-script=${TENSORBUS_GENERATED_DIR}/exports.map")

# Every symbol is looked up when the library is loaded: our handlers for signals may run on a stack that has no
# room for the looking up, which first saves all vector registers (2.5 KB with AVX-512).
target_link_options(tensorbus PRIVATE LINKER:-z,now)

# Publishing and receiving cross many small files: inlining between them is worth a tenth of the time.
include(CheckIPOSupported)
check_ipo_supported(RESULT has_ipo OUTPUT ipo_output LANGUAGES CXX)
if(has_ipo)
  set_target_properties(tensorbus_objects tensorbus PROPERTIES INTERPROCEDURAL_OPTIMIZATION_RELEASE
                                                               ON)
endif()

tensorbus_link_for_older_system(tensorbus)

add_library(tensorbus_internal STATIC EXCLUDE_FROM_ALL)
target_link_libraries(tensorbus_internal PUBLIC tensorbus_objects)
target_link_options(tensorbus_internal INTERFACE LINKER:-z,now)
set_target_properties(tensorbus_internal PROPERTIES LINKER_LANGUAGE CXX)
