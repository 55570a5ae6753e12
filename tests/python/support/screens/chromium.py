"""A headless Chromium, driven over its DevTools protocol
(https://chromedevtools.github.io/devtools-protocol/)."""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import shutil
from base64 import b64decode
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

from aiohttp import ClientSession, ClientWebSocketResponse

from support.harness import PATIENCE

PROGRAM = shutil.which("chromium")
WHY_NO_CHROMIUM = None if PROGRAM else "there is no chromium: apt-get install chromium"


class Tab:
    """One page of the browser."""

    def __init__(self, browser: Browser, session: str) -> None:
        self._browser = browser
        self._session = session
        self.requested: list[str] = []
        """The addresses that the page asked for, websockets too."""
        self.errors: list[str] = []
        """What the page said of errors: exceptions, and what a policy blocked."""
        self.loaded = asyncio.Event()

    async def do(self, method: str, **parameters: Any) -> Any:
        """A command of the protocol, and its result."""
        return await self._browser.do(method, self._session, **parameters)

    async def js(self, expression: str) -> Any:
        """The value of an expression in the page; of a promise, what it becomes."""
        done = await self.do(
            "Runtime.evaluate", expression=expression, awaitPromise=True, returnByValue=True
        )
        assert "exceptionDetails" not in done, done["exceptionDetails"]
        return done["result"].get("value")

    async def until(self, expression: str) -> Any:
        """Waits until an expression is true in the page, looking at each picture that it draws."""
        look = (
            "new Promise((done, fail) => { const end = performance.now() + %d; "
            "const look = () => { const found = (%s); if (found) done(found); "
            "else if (performance.now() > end) fail(new Error('never: ' + %s)); "
            "else requestAnimationFrame(look); }; look(); })"
        )
        return await self.js(look % (PATIENCE * 1000, expression, json.dumps(expression)))

    async def click(self, selector: str) -> None:
        """What a click of a user does, on the middle of an element."""
        box = await self.js(
            f"(() => {{ const found = document.querySelector({json.dumps(selector)}); "
            "found.scrollIntoView({block: 'center', behavior: 'instant'}); "
            "const {x, y, width, height} = found.getBoundingClientRect(); "
            "return [x + width / 2, y + height / 2]; })()"
        )
        for kind in ("mousePressed", "mouseReleased"):
            where = {"x": box[0], "y": box[1], "button": "left", "clickCount": 1}
            await self.do("Input.dispatchMouseEvent", type=kind, **where)

    async def picture(self, file: Path, width: int, height: int) -> None:
        """A PNG of the upper part of the page."""
        clip = {"x": 0, "y": 0, "width": width, "height": height, "scale": 1}
        done = await self.do("Page.captureScreenshot", clip=clip)
        file.write_bytes(b64decode(done["data"]))

    async def close(self) -> None:
        await self.do("Page.close")

    def hear(self, method: str, parameters: dict[str, Any]) -> None:
        if method == "Page.loadEventFired":
            self.loaded.set()
        elif method == "Network.requestWillBeSent":
            self.requested.append(parameters["request"]["url"])
        elif method == "Network.webSocketCreated":
            self.requested.append(parameters["url"])
        elif method == "Runtime.exceptionThrown":
            details = parameters["exceptionDetails"]
            self.errors.append(details.get("exception", details).get("description", str(details)))
        elif method == "Log.entryAdded" and parameters["entry"]["level"] == "error":
            self.errors.append(f"{parameters['entry']['text']} {parameters['entry'].get('url')}")


class Browser:
    """The process, and the connection with it."""

    def __init__(self, socket: ClientWebSocketResponse) -> None:
        self._socket = socket
        self._answers: dict[int, asyncio.Future[Any]] = {}
        self._tabs: dict[str, Tab] = {}

    async def open(self, url: str, width: int = 1280, height: int = 900) -> Tab:
        """A new tab, with the page of this address."""
        target = (await self.do("Target.createTarget", url="about:blank"))["targetId"]
        attached = await self.do("Target.attachToTarget", targetId=target, flatten=True)
        tab = self._tabs[attached["sessionId"]] = Tab(self, attached["sessionId"])
        for part in ("Page", "Network", "Runtime", "Log"):
            await tab.do(f"{part}.enable")
        size = {"width": width, "height": height, "deviceScaleFactor": 1, "mobile": False}
        await tab.do("Emulation.setDeviceMetricsOverride", **size)
        await tab.do("Page.navigate", url=url)
        await asyncio.wait_for(tab.loaded.wait(), 2 * PATIENCE)
        return tab

    async def do(self, method: str, session: str | None = None, **parameters: Any) -> Any:
        number = len(self._answers) + 1
        answer = self._answers[number] = asyncio.get_running_loop().create_future()
        command: dict[str, Any] = {"id": number, "method": method, "params": parameters}
        await self._socket.send_json(command | ({"sessionId": session} if session else {}))
        return await asyncio.wait_for(answer, 2 * PATIENCE)

    async def listen(self) -> None:
        async for message in self._socket:
            told = message.json()
            if "id" not in told:
                if tab := self._tabs.get(told.get("sessionId", "")):
                    tab.hear(told["method"], told["params"])
            elif "error" in told:
                self._answers[told["id"]].set_exception(RuntimeError(told["error"]["message"]))
            else:
                self._answers[told["id"]].set_result(told["result"])


def without_sanitizers() -> dict[str, str]:
    """The environment of a program that cannot run with their libraries."""
    return {name: value for name, value in os.environ.items() if name != "LD_PRELOAD"}


@contextlib.asynccontextmanager
async def chromium(folder: Path) -> AsyncIterator[Browser]:
    """A browser with an empty profile in this folder."""
    assert PROGRAM is not None
    process = await asyncio.create_subprocess_exec(
        PROGRAM,
        "--headless=new",
        "--no-sandbox",  # root has none
        "--disable-gpu",
        "--disable-dev-shm-usage",
        "--no-first-run",
        "--remote-debugging-port=0",
        f"--user-data-dir={folder}",
        "about:blank",
        stdout=asyncio.subprocess.DEVNULL,
        stderr=asyncio.subprocess.PIPE,
        env=without_sanitizers() | {"HOME": str(folder)},
    )
    try:
        assert process.stderr is not None
        url = ""
        while not url.startswith("ws://"):
            line = await asyncio.wait_for(process.stderr.readline(), PATIENCE)
            assert line, "chromium ended"
            url = line.decode().rpartition("listening on ")[2].strip()
        draining = asyncio.create_task(process.stderr.read())
        async with (
            ClientSession() as client,
            client.ws_connect(url, max_msg_size=0) as socket,
        ):
            browser = Browser(socket)
            listening = asyncio.create_task(browser.listen())
            yield browser
            await browser.do("Browser.close")
            listening.cancel()
        await draining
    finally:
        if process.returncode is None:
            with contextlib.suppress(ProcessLookupError):
                process.kill()
        await process.wait()
