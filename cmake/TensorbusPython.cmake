# tensorbus._core, beside libtensorbus in the package's lib folder. pip builds this, through
# scikit-build-core, which installs it into the package's folder.

option(TENSORBUS_STABLE_ABI "Build the Python module for CPython 3.12 and newer, not for one CPython" OFF)
option(TENSORBUS_BUILD_STUB "Write the stub of the Python module, which imports it" ON)

set(python_components Interpreter Development.Module)
set(stable_abi)
if(TENSORBUS_STABLE_ABI)
  list(APPEND python_components Development.SABIModule)
  set(stable_abi STABLE_ABI)
endif()
find_package(Python 3.10 REQUIRED COMPONENTS ${python_components})
find_package(nanobind CONFIG REQUIRED)

file(GLOB_RECURSE python_sources CONFIGURE_DEPENDS "${TENSORBUS_SOURCE_DIR}/python/*.cpp")
nanobind_add_module(_core ${stable_abi} NB_STATIC FREE_THREADED NB_DOMAIN tensorbus NOMINSIZE
                    NB_SUPPRESS_WARNINGS
                    ${python_sources})
target_link_libraries(_core PRIVATE tensorbus_inside tensorbus_warnings)
tensorbus_parse_once(_core PRIVATE "${TENSORBUS_SOURCE_DIR}/python/bindings.hpp"
                     <nanobind/stl/optional.h> <nanobind/stl/string.h> <nanobind/stl/vector.h>)
tensorbus_link_for_older_system(_core)
set_target_properties(_core PROPERTIES INSTALL_RPATH "$ORIGIN/${CMAKE_INSTALL_LIBDIR}")

# This machine cannot import a module for another.
if(TENSORBUS_BUILD_STUB AND NOT CMAKE_CROSSCOMPILING)
  nanobind_add_stub(_core_stub MODULE _core PYTHON_PATH "$<TARGET_FILE_DIR:_core>" DEPENDS _core
                    OUTPUT "${PROJECT_BINARY_DIR}/_core.pyi")
endif()

if(SKBUILD)
  install(TARGETS _core LIBRARY DESTINATION .)
  if(TARGET _core_stub)
    install(FILES "${PROJECT_BINARY_DIR}/_core.pyi" DESTINATION .)
  endif()
endif()
