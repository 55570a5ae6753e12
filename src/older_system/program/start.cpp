// Start of a program, for the command of a wheel. A glibc older than 2.34 runs the constructors of
// a program by a function that crt1.o passes to __libc_start_main. The crt1.o of this system passes
// none, because a newer glibc finds the constructors itself. Here a function is passed; every glibc
// calls it. The linker redirects the call to this file (--wrap, cmake/TensorbusOlderSystem.cmake).

extern "C" {

// NOLINTBEGIN(bugprone-reserved-identifier,readability-identifier-naming): names of glibc and ld
using Main = int (*)(int, char**, char**);
using Constructor = void (*)(int, char**, char**);

// Of the linker: the constructors of the program, in their order.
extern const Constructor __init_array_start[] __attribute__((visibility("hidden")));
extern const Constructor __init_array_end[] __attribute__((visibility("hidden")));

int __real___libc_start_main(Main main, int count, char** arguments, Main init, void (*finish)(),
                             void (*finish_loader)(), void* stack_end);

static int construct(int count, char** arguments, char** environment) {
  for (const Constructor* each = __init_array_start; each != __init_array_end; ++each)
    (*each)(count, arguments, environment);
  return 0;
}

int __wrap___libc_start_main(Main main, int count, char** arguments, Main, void (*)(),
                             void (*finish_loader)(), void* stack_end) {
  return __real___libc_start_main(main, count, arguments, construct, nullptr, finish_loader,
                                  stack_end);
}
// NOLINTEND(bugprone-reserved-identifier,readability-identifier-naming)

}  // extern "C"
