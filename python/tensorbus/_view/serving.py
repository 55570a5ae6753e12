"""Serves the page while the command runs."""

from __future__ import annotations

import html
import os
import tempfile
import threading
import webbrowser
from functools import partial
from pathlib import Path

from tensorbus._aio.own_loop import run_until_signal
from tensorbus._inspection.inspection import inspect
from tensorbus._inspection.report import Inspection
from tensorbus._view.address import Address
from tensorbus._view.traffic import without


def serve(domain: str | None, port: int, open_browser: bool) -> int:
    """See `tensorbus._view.run`."""
    run_until_signal(_serve(domain, port, open_browser))
    return 0


async def _serve(domain: str | None, port: int, open_browser: bool) -> None:
    address = Address(port)
    print(f"tensorbus view: {address.url}\nCtrl-C ends it.", flush=True)
    from tensorbus._view.server import Server  # here: slow to import, after the address is printed

    server = Server(partial(others, domain), domain, address)
    with tempfile.TemporaryDirectory(prefix="tensorbus-view-") as folder:
        if open_browser and has_desktop():
            await server.run(partial(_open_browser, Path(folder) / "open.html", address.url))
        else:
            await server.run()


def others(domain: str | None) -> Inspection:
    """An inspection without this process, which subscribes for the tiles."""
    return without(os.getpid(), inspect(domain))


def has_desktop() -> bool:
    """True if there is a desktop. Without one, a browser would occupy the terminal."""
    return bool(os.environ.get("DISPLAY") or os.environ.get("WAYLAND_DISPLAY"))


def _open_browser(file: Path, url: str) -> None:
    """Opens the page by a file that redirects to it: other users can see a browser's arguments."""
    file.write_text(f'<meta http-equiv="refresh" content="0; url={html.escape(url)}">')
    # A daemon thread: some browsers return only when they are closed; the command must not wait.
    threading.Thread(target=webbrowser.open, args=(file.as_uri(),), daemon=True).start()
