"""Where the page is, and who may ask for it: those who know the token, in pages from there."""

from __future__ import annotations

import secrets
import socket

# No file from outside, no frame around the page, no form.
HEADERS = {
    "Content-Security-Policy": "default-src 'self'; base-uri 'none'; form-action 'none'; "
    "frame-ancestors 'none'",
    "Cache-Control": "no-store",
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Referrer-Policy": "no-referrer",
    "X-Content-Type-Options": "nosniff",
}
_HTTP_PORT = 80


class Address:
    """A port of this machine, the token of its server, and the names that it answers to.

    A browser can connect from now on; it waits until the server runs.

    A page of another site can send requests to 127.0.0.1, also under a name of its own that its
    name server says is 127.0.0.1 (DNS rebinding). It does not know the token, and its requests name
    another Host or Origin.

    Args:
        port: on 127.0.0.1; 0 for any that is free.

    Raises:
        OSError: the port is taken.
    """

    def __init__(self, port: int = 0) -> None:
        self.listening = socket.create_server(("127.0.0.1", port))
        port = self.listening.getsockname()[1]
        self._token = secrets.token_urlsafe(32)
        self.url = f"http://127.0.0.1:{port}/{self._token}/"
        """Where a browser finds the page: with this address, everything can be seen."""
        self._hosts = {f"127.0.0.1:{port}", f"localhost:{port}"}
        if port == _HTTP_PORT:
            self._hosts |= {"127.0.0.1", "localhost"}
        self._origins = {f"http://{host}" for host in self._hosts}

    def allows(self, token: str, host: str | None, origin: str | None) -> bool:
        """May this request be answered? The time that it takes does not depend on the token.

        Args:
            token: what the request has in its place.
            host: its header `Host`.
            origin: its header `Origin`; None if it has none, as the page itself.
        """
        known = secrets.compare_digest(token.encode("utf-8", "replace"), self._token.encode())
        return known and host in self._hosts and (origin is None or origin in self._origins)
