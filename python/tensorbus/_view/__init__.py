"""`tensorbus view`: a domain as a web page on this machine."""

from __future__ import annotations

from tensorbus._base.errors import Unsupported


def run(domain: str | None, port: int = 0, open_browser: bool = True) -> int:
    """Serves the page until SIGINT or SIGTERM; the exit status.

    Args:
        domain: a name or a path in place of $TENSORBUS_DOMAIN.
        port: on 127.0.0.1; 0 for any that is free.
        open_browser: opens the page in the browser of the desktop; without, only prints it.

    Raises:
        Unsupported: what the page is served with is not installed.
        OSError: the port is taken.
    """
    try:
        import aiohttp  # noqa: F401
        import numpy  # noqa: F401
    except ImportError as error:
        raise Unsupported(f"{error.name} is not installed: pip install 'tensorbus[view]'") from None
    from tensorbus._view.serving import serve

    return serve(domain, port, open_browser)
