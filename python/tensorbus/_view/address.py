"""The address of the page, and the check of requests by token, host and origin."""

from __future__ import annotations

import secrets
import socket

# The page may not load files from other sites, be shown in a frame, or send forms.
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
    """A listening port of this machine, the server's token, and the allowed host names.

    A browser can connect at once; it waits until the server runs.

    A page of another site can send requests to 127.0.0.1, also under a host name that its name
    server resolves to 127.0.0.1 (DNS rebinding). That page does not have the token, and its
    requests have another Host or Origin.

    Args:
        port: a port of 127.0.0.1; 0: any free port.

    Raises:
        OSError: the port is in use.
    """

    def __init__(self, port: int = 0) -> None:
        self.listening = socket.create_server(("127.0.0.1", port))
        port = self.listening.getsockname()[1]
        self._token = secrets.token_urlsafe(32)
        self.url = f"http://127.0.0.1:{port}/{self._token}/"
        """The page's address. It contains the token: anyone with the address can see the domain."""
        self._hosts = {f"127.0.0.1:{port}", f"localhost:{port}"}
        if port == _HTTP_PORT:
            self._hosts |= {"127.0.0.1", "localhost"}
        self._origins = {f"http://{host}" for host in self._hosts}

    def allows(self, token: str, host: str | None, origin: str | None) -> bool:
        """True if a request is allowed. The comparison of the token takes constant time.

        Args:
            token: the token in the request's path.
            host: the request's `Host` header.
            origin: the request's `Origin` header; None: it has none, as requests of the page.
        """
        known = secrets.compare_digest(token.encode("utf-8", "replace"), self._token.encode())
        return known and host in self._hosts and (origin is None or origin in self._origins)
