"""`tensorbus top`: what the topics and processes of a domain do, on the terminal."""

from __future__ import annotations


def run(domain: str | None) -> int:
    """Runs until it is quit; the exit status.

    Args:
        domain: a name or a path in place of $TENSORBUS_DOMAIN.

    Raises:
        ImportError: textual is not installed.
        Unsupported: there is no terminal that it can draw on.
    """
    from tensorbus._inspection.inspection import inspect
    from tensorbus._top.app import Top
    from tensorbus._top.terminal import end_with_terminal, require_terminal

    require_terminal()
    end_with_terminal()
    Top(lambda: inspect(domain)).run()
    return 0
