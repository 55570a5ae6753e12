"""`tensorbus view`: a domain as a web page on this machine."""

from __future__ import annotations

from importlib.util import find_spec

from tensorbus._base.errors import Unsupported


def run(
    domain: str | None,
    port: int = 0,
    open_browser: bool = True,
    *,
    rerun: str | None = None,
    foxglove: str | None = None,
) -> int:
    """Serves the page until SIGINT or SIGTERM; the exit status.

    Args:
        domain: a name or a path in place of $TENSORBUS_DOMAIN.
        port: on 127.0.0.1; 0 for any that is free, or for 8765 with `foxglove`.
        open_browser: opens the page in the browser of the desktop, if there is one; without, only
            prints it.
        rerun: instead of the page, forwards all messages to Rerun: "" for its viewer, or an `.rrd`
            to write.
        foxglove: the same for Foxglove: "" for a server that its app connects to, or an `.mcap`.

    Raises:
        Unsupported: what is needed for it is not installed.
        OSError: the port is taken.
    """
    package = "aiohttp"
    if rerun is not None or foxglove is not None:
        package = "foxglove" if rerun is None else "rerun"
    for needed in ("numpy", package):
        if find_spec(needed) is None:
            extra = "view" if package == "aiohttp" else package
            raise Unsupported(f"{needed} is not installed: pip install 'tensorbus[{extra}]'")
    if package == "aiohttp":
        from tensorbus._view.serving import serve

        return serve(domain, port, open_browser)
    from tensorbus._view.sinks.forwarding import forward_to

    return forward_to(domain, rerun, foxglove, port)
