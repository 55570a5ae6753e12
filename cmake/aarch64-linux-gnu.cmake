# For arm64, with Debian's cross compiler (scripts/arm64).
set(CMAKE_SYSTEM_NAME Linux)
set(CMAKE_SYSTEM_PROCESSOR aarch64)
set(CMAKE_C_COMPILER aarch64-linux-gnu-gcc)
set(CMAKE_CXX_COMPILER aarch64-linux-gnu-g++)
set(CMAKE_FIND_ROOT_PATH_MODE_PROGRAM NEVER)

# The programs say themselves where the loader and the libraries are. qemu-user's -L would have them
# see the files of another root below "/".
set(arm64_libraries /usr/aarch64-linux-gnu/lib)
set(CMAKE_EXE_LINKER_FLAGS_INIT
    "-Wl,--dynamic-linker=${arm64_libraries}/ld-linux-aarch64.so.1 -Wl,--disable-new-dtags,-rpath,${arm64_libraries}")
