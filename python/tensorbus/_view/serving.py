"""Serves the page for as long as the command runs."""

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
    from tensorbus._view.server import Server  # takes longer to import than all else here

    server = Server(partial(others, domain), domain, address)
    with tempfile.TemporaryDirectory(prefix="tensorbus-view-") as folder:
        if open_browser and has_desktop():
            await server.run(partial(_open_browser, Path(folder) / "open.html", address.url))
        else:
            await server.run()


def others(domain: str | None) -> Inspection:
    """Without this process, whose subscribers are the tiles."""
    return without(os.getpid(), inspect(domain))


def has_desktop() -> bool:
    """Without one, only browsers for the terminal can run, and they would occupy it."""
    return bool(os.environ.get("DISPLAY") or os.environ.get("WAYLAND_DISPLAY"))


def _open_browser(file: Path, url: str) -> None:
    """Opens the page by a file that leads to it: other users see the arguments of a browser."""
    file.write_text(f'<meta http-equiv="refresh" content="0; url={html.escape(url)}">')
    # A daemon: some browsers return only when they are closed, and the command does not wait.
    threading.Thread(target=webbrowser.open, args=(file.as_uri(),), daemon=True).start()
