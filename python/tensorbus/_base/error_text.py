"""The texts of exceptions of users' callbacks, which may be anything."""

from __future__ import annotations


def text_of(error: BaseException) -> str:
    r"""`str(error)`, or what that raises, in words. It can be encoded.

    >>> text_of(OSError("caf\udce9"))
    'caf\\udce9'
    """
    try:
        text = str(error)
    except Exception as raised:
        return f"(its text raises {type(raised).__name__})"
    return encodable(text)


def encodable(text: str) -> str:
    """Lone surrogates, as of names of files that are no UTF-8, become escapes."""
    return text.encode(errors="backslashreplace").decode()
