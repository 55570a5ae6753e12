# tensorbus._core, beside libtensorbus in the package's lib folder. pip builds this, through
# scikit-build-core, which installs it into the package's folder.

find_package(Python 3.10 REQUIRED COMPONENTS Interpreter Development.Module)
find_package(nanobind CONFIG REQUIRED)

file(GLOB_RECURSE python_sources CONFIGURE_DEPENDS "${TENSORBUS_SOURCE_DIR}/python/*.cpp")
nanobind_add_module(_core NB_STATIC FREE_THREADED NB_DOMAIN tensorbus NOMINSIZE
                    NB_SUPPRESS_WARNINGS
                    ${python_sources})
target_link_libraries(_core PRIVATE tensorbus_inside tensorbus_warnings)
tensorbus_parse_once(_core PRIVATE "${TENSORBUS_SOURCE_DIR}/python/bindings.hpp"
                     <nanobind/stl/optional.h> <nanobind/stl/string.h> <nanobind/stl/vector.h>)
set_target_properties(_core PROPERTIES INSTALL_RPATH "$ORIGIN/${CMAKE_INSTALL_LIBDIR}")

# Made by importing the module, which this machine cannot do with that of another.
if(NOT CMAKE_CROSSCOMPILING)
  nanobind_add_stub(_core_stub MODULE _core PYTHON_PATH "$<TARGET_FILE_DIR:_core>" DEPENDS _core
                    OUTPUT "${PROJECT_BINARY_DIR}/_core.pyi")
endif()

if(SKBUILD)
  install(TARGETS _core LIBRARY DESTINATION .)
  if(NOT CMAKE_CROSSCOMPILING)
    install(FILES "${PROJECT_BINARY_DIR}/_core.pyi" DESTINATION .)
  endif()
endif()
