"""``tensorbus metrics``: an endpoint for Prometheus."""

from __future__ import annotations

import signal
import time
from importlib.util import find_spec
from typing import Annotated

import typer

from tensorbus._base.signals import stop_signals
from tensorbus._base.stop_event import StopEvent
from tensorbus._cli.bridge_status import Status, is_status
from tensorbus._cli.options import ASK, Domain, Timeout
from tensorbus._cli.output import fail
from tensorbus._inspection.inspection import inspect
from tensorbus._topics.sample import Sample
from tensorbus._topics.subscriber import Subscriber

app = typer.Typer(rich_markup_mode=None, add_completion=False)

_EXAMPLES = """\b
Examples:
  tensorbus metrics
  tensorbus metrics --port 9500 --domain robot
  curl http://127.0.0.1:9464/metrics"""
_MAX_AGE_NS = 5_000_000_000  # of a status; the bridge publishes one every second


@app.command(epilog=_EXAMPLES)
def metrics(
    port: Annotated[int, typer.Option(min=0, max=65535, help="The port; 0: any free port.")] = 9464,
    address: Annotated[
        str, typer.Option(help="The address to listen at. Other machines cannot reach 127.0.0.1.")
    ] = "127.0.0.1",
    domain: Domain = None,
    timeout: Timeout = ASK,
) -> None:
    """Serve the figures of the domain and of its bridge to Prometheus, until Ctrl-C.

    Each scrape requests the counters of the processes. Between scrapes there are no requests.
    """
    if find_spec("prometheus_client") is None:
        fail("needs prometheus-client: pip install 'tensorbus[metrics]'")
    from prometheus_client import CollectorRegistry, start_http_server

    from tensorbus._cli.collector import BusCollector

    registry = CollectorRegistry(auto_describe=False)
    with BridgeWatch(domain) as bridge:
        registry.register(BusCollector(lambda: inspect(domain, timeout), bridge.status))
        server, thread = start_http_server(port, address, registry)
        print(f"http://{address}:{server.server_port}/metrics", flush=True)
        ended = StopEvent()
        with stop_signals(ended.set) as received:
            ended.wait()
        server.shutdown()
        thread.join()
        if signal.SIGINT in received:
            raise KeyboardInterrupt


class BridgeWatch:
    """The newest status of the bridge, if one is running."""

    def __init__(self, domain: str | None) -> None:
        from tensorbus.bridge._bridge import STATUS_TOPIC

        self._subscriber = Subscriber[Status](STATUS_TOPIC, depth=1, reliable=False, domain=domain)
        self._last: Sample[Status] | None = None

    def __enter__(self) -> BridgeWatch:
        return self

    def __exit__(self, *_: object) -> None:
        self._subscriber.close()

    def status(self) -> Status | None:
        """The status; None if there is no bridge, or its last status is old."""
        while (newest := self._subscriber.try_receive()) is not None:
            if is_status(newest.data):
                self._last = newest
        if self._last is None:
            return None
        age = time.time_ns() - self._last.header.timestamp_ns
        if abs(age) > _MAX_AGE_NS:  # the age is negative if the clock was set back
            return None
        return self._last.data
