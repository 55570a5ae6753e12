"""Figures and names as text, for tables."""

from __future__ import annotations

_NOTHING = "-"


def rate_text(per_second: float | None) -> str:
    """A rate per second; None: unknown.

    >>> rate_text(29.971), rate_text(12345.6), rate_text(0.0), rate_text(None)
    ('30.0', '12346', '0', '-')
    """
    if per_second is None:
        return _NOTHING
    return f"{per_second:.0f}" if per_second == 0 or per_second >= 1000 else f"{per_second:.1f}"


def bytes_text(count: float | None) -> str:
    """A number of bytes with a unit; None: unknown.

    >>> bytes_text(0), bytes_text(1536), bytes_text(3 << 30), bytes_text(None)
    ('0 B', '1.5 KiB', '3.0 GiB', '-')
    """
    if count is None:
        return _NOTHING
    if count < 1024:
        return f"{count:.0f} B"
    for unit in ("KiB", "MiB", "GiB"):
        count /= 1024
        if count < 1024:
            return f"{count:.1f} {unit}"
    return f"{count / 1024:.1f} TiB"


def bandwidth_text(bytes_per_second: float | None) -> str:
    """Bytes per second with a unit; None: unknown.

    >>> bandwidth_text(186_624_000.0), bandwidth_text(None)
    ('178.0 MiB/s', '-')
    """
    return _NOTHING if bytes_per_second is None else bytes_text(bytes_per_second) + "/s"


def percent_text(percent: float | None) -> str:
    """A percentage without its sign; None: unknown.

    >>> percent_text(12.345), percent_text(None)
    ('12.3', '-')
    """
    return _NOTHING if percent is None else f"{percent:.1f}"


def time_text(nanoseconds: int) -> str:
    """A duration with a unit.

    >>> time_text(0), time_text(4_200_000), time_text(3_200_000_000), time_text(200 * 10**9)
    ('-', '4 ms', '3.2 s', '3 min 20 s')
    >>> time_text(7500 * 10**9)
    '2 h 5 min'
    """
    seconds = nanoseconds / 1e9
    if nanoseconds <= 0:
        return _NOTHING
    if seconds < 1:
        return f"{seconds * 1000:.0f} ms"
    if seconds < 60:
        return f"{seconds:.1f} s"
    minutes = int(seconds // 60)
    if minutes < 60:
        return f"{minutes} min {seconds % 60:.0f} s"
    return f"{minutes // 60} h {minutes % 60} min"


def part_text(part: int, whole: int) -> str:
    """A count of a limit; a limit of 0 is none.

    >>> part_text(3, 8), part_text(3, 0)
    ('3/8', '3')
    """
    return f"{part}/{whole}" if whole else str(part)


def short(name: str, width: int = 40) -> str:
    """A name of at most `width` characters: a long name is cut at its beginning.

    >>> short("robot/left/camera/image", 12)
    '…amera/image'
    """
    return name if len(name) <= width else "…" + name[1 - width :]


def shown(text: str) -> str:
    """Text of another process on one line, with "?" for characters that control a terminal.

    >>> shown("a\\x1b[2Jb\\nc")
    'a?[2Jb?c'
    """
    if text.isprintable():
        return text
    return "".join(char if char.isprintable() else "?" for char in text)


def process_name(program: str, pid: int, participant: str) -> str:
    """The text for a process: its program with its pid, or with its id if the pid is unknown.

    >>> process_name("camera", 4312, "5f" * 16), process_name("", 0, "5f" * 16)
    ('camera (4312)', '? (5f5f5f5f)')
    """
    return f"{shown(program) or '?'} ({pid or participant[:8]})"
