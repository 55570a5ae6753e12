"""`tensorbus top`: the topics, processes and queues of a domain, on the terminal."""

from __future__ import annotations


def run(domain: str | None) -> int:
    """Runs until the user quits. Returns the exit status.

    Args:
        domain: a name or a path in place of $TENSORBUS_DOMAIN.

    Raises:
        ImportError: textual is not installed.
        Unsupported: there is no terminal, or it cannot move its cursor.
    """
    import signal

    from tensorbus._inspection.inspection import inspect
    from tensorbus._top.app import Top
    from tensorbus._top.terminal import end_with_terminal, require_terminal

    require_terminal()
    end_with_terminal()
    top = Top(lambda: inspect(domain))
    before = signal.signal(signal.SIGTERM, top.end)
    try:
        top.run()
    finally:
        signal.signal(signal.SIGTERM, before)
    return 0
