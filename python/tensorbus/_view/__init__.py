"""`tensorbus view`: shows a domain on a web page on this machine."""

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
    """Serves the page until SIGINT, SIGTERM or SIGHUP. Returns the exit status.

    Args:
        domain: a name or a path in place of $TENSORBUS_DOMAIN.
        port: a port of 127.0.0.1; 0: any free port, or 8765 with `foxglove`.
        open_browser: open the page in the browser of the desktop, if there is a desktop.
        rerun: forward all messages to Rerun instead: "" for its viewer, or an `.rrd` file to write.
        foxglove: forward all messages to Foxglove instead: "" for a server to which its app
            connects, or an `.mcap` file to write.

    Raises:
        Unsupported: a required package is not installed.
        OSError: the port is in use.
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
