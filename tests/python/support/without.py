"""Runs a command without calls of the kernel that older kernels and containers do not have.

    python -m support.without pidfd populate -- COMMAND...

A seccomp filter refuses them, to the command and to all that it starts.
"""

from __future__ import annotations

import ctypes
import errno
import os
import platform
import struct
import sys
from dataclasses import dataclass

CALLS = {
    "x86_64": {
        "fcntl": 72,
        "getsockopt": 55,
        "madvise": 28,
        "memfd_create": 319,
        "pidfd_open": 434,
    },
    "aarch64": {
        "fcntl": 25,
        "getsockopt": 209,
        "madvise": 233,
        "memfd_create": 279,
        "pidfd_open": 434,
    },
}
ARCHITECTURES = {"x86_64": 0xC000003E, "aarch64": 0xC00000B7}
LAST_OF_5_4 = 435  # clone3(); every architecture gives later calls the same numbers

F_ADD_SEALS = 1033
F_SEAL_FUTURE_WRITE = 0x10
MFD_ALLOW_SEALING = 0x2
MFD_NOEXEC_SEAL, MFD_EXEC = 0x8, 0x10
MADV_POPULATE_READ, MADV_POPULATE_WRITE, MADV_COLLAPSE = 22, 23, 25
SO_PEERPIDFD = 77

# linux/seccomp.h, linux/bpf_common.h
LOAD, RETURN = 0x20, 0x06
IF_EQUAL, IF_GREATER, IF_ANY_BIT = 0x15, 0x25, 0x45
ALLOW, REFUSE = 0x7FFF0000, 0x00050000
PR_SET_SECCOMP, PR_SET_NO_NEW_PRIVS = 22, 38


@dataclass(frozen=True)
class Refusal:
    """A call, if all conditions on its arguments hold: (argument, instruction, value)."""

    call: str
    error: int
    when: tuple[tuple[int, int, int], ...] = ()


PIDFD = (Refusal("pidfd_open", errno.ENOSYS),)
FUTURE_WRITE = (
    Refusal(
        "fcntl",
        errno.EINVAL,
        ((1, IF_EQUAL, F_ADD_SEALS), (2, IF_ANY_BIT, F_SEAL_FUTURE_WRITE)),
    ),
)
POPULATE = tuple(
    Refusal("madvise", errno.EINVAL, ((2, IF_EQUAL, advice),))
    for advice in (MADV_POPULATE_READ, MADV_POPULATE_WRITE, MADV_COLLAPSE)
)
NEWER = (
    Refusal("newer", errno.ENOSYS),
    Refusal("memfd_create", errno.EINVAL, ((1, IF_ANY_BIT, MFD_NOEXEC_SEAL | MFD_EXEC),)),
    Refusal("getsockopt", errno.ENOPROTOOPT, ((2, IF_EQUAL, SO_PEERPIDFD),)),
)

WITHOUT = {
    "pidfd": PIDFD,
    "future-write": FUTURE_WRITE,
    "populate": POPULATE,
    # What Linux 5.4 has, and with F_SEAL_FUTURE_WRITE what 5.0 has not.
    "newer-than-5.4": NEWER + POPULATE,
    # What sandboxes refuse.
    "seals": (Refusal("memfd_create", errno.EINVAL, ((1, IF_ANY_BIT, MFD_ALLOW_SEALING),)),),
    "sealing": (Refusal("fcntl", errno.EPERM, ((1, IF_EQUAL, F_ADD_SEALS),)),),
    "memfd": (Refusal("memfd_create", errno.ENOSYS),),
}


def instruction(code: int, value: int, skip_if: int = 0, skip_else: int = 0) -> bytes:
    return struct.pack("=HBBI", code, skip_if, skip_else, value)


def refused(refusal: Refusal, calls: dict[str, int]) -> list[bytes]:
    """Instructions that end the filter with the error, or go on."""
    conditions = list(refusal.when)
    left = 2 * len(conditions) + 1  # instructions after the first comparison
    if refusal.call == "newer":
        first = instruction(IF_GREATER, LAST_OF_5_4, 0, left)
    else:
        first = instruction(IF_EQUAL, calls[refusal.call], 0, left)
    code = [instruction(LOAD, 0), first]  # seccomp_data.nr
    for argument, comparison, value in conditions:
        left -= 2
        code += [instruction(LOAD, 16 + 8 * argument), instruction(comparison, value, 0, left)]
    return [*code, instruction(RETURN, REFUSE | refusal.error)]


def program(names: list[str]) -> bytes:
    machine = platform.machine()
    code = [instruction(LOAD, 4), instruction(IF_EQUAL, ARCHITECTURES[machine], 1, 0)]
    code.append(instruction(RETURN, ALLOW))  # another architecture's numbers
    for name in names:
        for refusal in WITHOUT[name]:
            code += refused(refusal, CALLS[machine])
    return b"".join([*code, instruction(RETURN, ALLOW)])


def refuse(names: list[str]) -> None:
    """From now on, in this process and in all that it starts."""
    code = program(names)
    buffer = ctypes.create_string_buffer(code, len(code))
    filter_ = struct.pack("@HP", len(code) // 8, ctypes.addressof(buffer))
    libc = ctypes.CDLL(None, use_errno=True)
    for option, *arguments in (
        (PR_SET_NO_NEW_PRIVS, 1, 0),
        (PR_SET_SECCOMP, 2, ctypes.create_string_buffer(filter_, len(filter_))),
    ):
        if libc.prctl(option, *arguments, 0, 0) != 0:
            raise OSError(ctypes.get_errno(), "prctl")


def main() -> None:
    names, command = sys.argv[1:], []
    if "--" in names:
        at = names.index("--")
        names, command = names[:at], names[at + 1 :]
    unknown = [name for name in names if name not in WITHOUT]
    if unknown or not command:
        sys.exit(f"expected NAME... -- COMMAND..., with names of {', '.join(WITHOUT)}")
    refuse(names)
    os.execvp(command[0], command)


if __name__ == "__main__":
    main()
