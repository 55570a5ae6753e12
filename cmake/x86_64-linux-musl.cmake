# For musl, with zig of PyPI's package ziglang, which brings musl's headers and LLVM's libc++
# (scripts/musl).
set(CMAKE_SYSTEM_NAME Linux)
set(CMAKE_SYSTEM_PROCESSOR x86_64)
file(GLOB zig "${CMAKE_CURRENT_LIST_DIR}/../.venv/lib/python3*/site-packages/ziglang/zig")
set(CMAKE_C_COMPILER ${zig} cc -target x86_64-linux-musl)
set(CMAKE_CXX_COMPILER ${zig} c++ -target x86_64-linux-musl)
set(CMAKE_FIND_ROOT_PATH_MODE_PROGRAM NEVER)

# zig would trap at undefined behaviour, and link all of a program statically.
set(CMAKE_C_FLAGS_INIT -fno-sanitize=undefined)
set(CMAKE_CXX_FLAGS_INIT -fno-sanitize=undefined)
set(CMAKE_EXE_LINKER_FLAGS_INIT -dynamic)
