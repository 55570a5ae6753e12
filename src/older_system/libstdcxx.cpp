// Functions of libstdc++ that are newer than that of GCC 8 (GLIBCXX_3.4.24, CXXABI_1.3.11), for the
// wheels, as in glibc.cpp.
#include <exception>
#include <new>
#include <stdexcept>

// What an older libstdc++ exports in place of the two functions below.
extern "C" {
void tensorbus_copy_exception_ptr(void* to, const void* from) noexcept
    __asm__("_ZNSt15__exception_ptr13exception_ptrC1ERKS0_");
void tensorbus_destroy_exception_ptr(void* of) noexcept
    __asm__("_ZNSt15__exception_ptr13exception_ptrD1Ev");
}

// The headers make them visible; an attribute here would be ignored.
__asm__(
    ".hidden _ZSt28__throw_bad_array_new_lengthv\n"
    ".hidden _ZNSt13runtime_errorC1EOS_\n"
    ".hidden _ZNSt13runtime_errorC2EOS_\n"
    ".hidden _ZNSt15__exception_ptr13exception_ptr9_M_addrefEv\n"
    ".hidden _ZNSt15__exception_ptr13exception_ptr10_M_releaseEv");

// NOLINTBEGIN(bugprone-std-namespace-modification): these are functions of newer versions
namespace std {

// GCC 11.
void __throw_bad_array_new_length() { throw bad_array_new_length(); }

// GCC 9. A copy shares the text, too.
// NOLINTNEXTLINE(performance-move-constructor-init)
runtime_error::runtime_error(runtime_error&& other) noexcept : runtime_error(other) {}

namespace __exception_ptr {

// GCC 12. A copy that is never destroyed adds a reference.
void exception_ptr::_M_addref() noexcept {
  alignas(exception_ptr) unsigned char copy[sizeof(exception_ptr)];
  tensorbus_copy_exception_ptr(copy, this);
}
void exception_ptr::_M_release() noexcept { tensorbus_destroy_exception_ptr(this); }

}  // namespace __exception_ptr
}  // namespace std
// NOLINTEND(bugprone-std-namespace-modification)
