"""Serves the page for as long as the command runs."""

from __future__ import annotations

import contextlib
import html
import os
import tempfile
import webbrowser
from collections.abc import Iterator
from functools import partial
from pathlib import Path

from tensorbus._inspection.inspection import inspect
from tensorbus._inspection.report import Inspection
from tensorbus._view.address import Address
from tensorbus._view.signals import until_signal
from tensorbus._view.traffic import without


def serve(domain: str | None, port: int, open_browser: bool) -> int:
    """See `tensorbus._view.run`."""
    until_signal(_serve(domain, port, open_browser))
    return 0


async def _serve(domain: str | None, port: int, open_browser: bool) -> None:
    address = Address(port)
    print(f"tensorbus view: {address.url}\nCtrl-C ends it.", flush=True)
    with _browser(address.url) if open_browser else contextlib.nullcontext():
        from tensorbus._view.server import Server  # takes longer to import than all else here

        await Server(partial(others, domain), domain, address).run()


def others(domain: str | None) -> Inspection:
    """Without this process, whose subscribers are the tiles."""
    return without(os.getpid(), inspect(domain))


@contextlib.contextmanager
def _browser(url: str) -> Iterator[None]:
    """Opens the page by a file that leads to it: other users see the arguments of a browser."""
    with tempfile.TemporaryDirectory(prefix="tensorbus-view-") as folder:
        file = Path(folder) / "open.html"
        file.write_text(f'<meta http-equiv="refresh" content="0; url={html.escape(url)}">')
        webbrowser.open(file.as_uri())
        yield
