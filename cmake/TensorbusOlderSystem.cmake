# For wheels: the library and the extension need no newer glibc and libstdc++ than the oldest system
# that the wheel is for (manylinux_2_28: glibc 2.28, and the libstdc++ of GCC 8). They are compiled as
# always, linked with libraries that have nothing newer, which scripts/lib/link_libraries.py makes, and
# have in themselves what is newer (src/older_system).

set(TENSORBUS_LINK_LIBRARIES "" CACHE PATH
    "Folder of scripts/lib/link_libraries.py: link for older systems, with nothing newer than in these")

if(TENSORBUS_LINK_LIBRARIES)
  file(GLOB older_system_sources CONFIGURE_DEPENDS "${PROJECT_SOURCE_DIR}/src/older_system/*.cpp")
  add_library(tensorbus_older_system OBJECT ${older_system_sources})
  # Found by name among the symbols, so nothing may be renamed or left out.
  set_target_properties(tensorbus_older_system PROPERTIES INTERPROCEDURAL_OPTIMIZATION OFF
                                                          UNITY_BUILD OFF)
  # Without -Wshadow: stat() is the name of the struct, too.
  target_compile_options(tensorbus_older_system PRIVATE -Wall -Wextra -Wpedantic)
  file(GLOB program_sources CONFIGURE_DEPENDS
       "${PROJECT_SOURCE_DIR}/src/older_system/program/*.cpp")
  add_library(tensorbus_older_program OBJECT ${program_sources})
  set_target_properties(tensorbus_older_program PROPERTIES INTERPROCEDURAL_OPTIMIZATION OFF
                                                           UNITY_BUILD OFF)
endif()

# tensorbus_link_for_older_system(TARGET), which is a shared object or a program. -l: and not a
# path, so that programs run here with the libraries of this system.
function(tensorbus_link_for_older_system name)
  if(NOT TENSORBUS_LINK_LIBRARIES)
    return()
  endif()
  target_sources(${name} PRIVATE $<TARGET_OBJECTS:tensorbus_older_system>)
  get_target_property(kind ${name} TYPE)
  if(kind STREQUAL "EXECUTABLE")
    target_sources(${name} PRIVATE $<TARGET_OBJECTS:tensorbus_older_program>)
    # What libgcc_s needs of the system's glibc is not looked for.
    target_link_options(${name} PRIVATE LINKER:--wrap=__libc_start_main
                                        LINKER:--allow-shlib-undefined)
  endif()
  target_link_options(${name} PRIVATE -nodefaultlibs "-L${TENSORBUS_LINK_LIBRARIES}")
  target_link_libraries(
    ${name} PRIVATE -l:libstdc++.so.6 -l:libm.so.6 -lgcc -l:libgcc_s.so.1 -l:libc.so.6
                    -l:libc_nonshared.a -Wl,--no-as-needed -l:libpthread.so.0 -l:libdl.so.2
                    -Wl,--as-needed)
endfunction()
