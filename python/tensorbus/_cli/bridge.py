"""``tensorbus bridge``: runs the bridge of this machine, or shows its status."""

from __future__ import annotations

import argparse
import logging
import resource
import time
from dataclasses import replace
from typing import Any

from tensorbus._aio.own_loop import run_until_signal
from tensorbus._base.errors import AccessDenied, InvalidArgument
from tensorbus._cli.bridge_status import status_of
from tensorbus._cli.process import leave_gpus
from tensorbus._cli.records import KINDS, print_record
from tensorbus.bridge import Bridge, BridgeConfig
from tensorbus.bridge._config import Tls, load


def bridge(given: argparse.Namespace) -> int:
    """Runs a bridge, or shows its status. Returns the exit status."""
    if given.action == "status":
        return _status(given)
    logging.basicConfig(level=logging.INFO, format="%(asctime)s %(name)s: %(message)s")
    config = _config_of(given)
    _raise_descriptor_limit()
    leave_gpus()
    run_until_signal(_run(config))
    return 0


def _raise_descriptor_limit() -> None:
    """Sets the limit of descriptors to the hard limit.

    A peer needs four descriptors, and a call of a service two; most systems start with 1,024.
    """
    _, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))


async def _run(config: BridgeConfig) -> None:
    try:
        await Bridge(config).run()  # the bridge must be made in the loop
    except AccessDenied as error:  # a file of `config`: like everything for which it cannot start
        raise InvalidArgument(str(error)) from error


def _config_of(given: argparse.Namespace) -> BridgeConfig:
    config = load(given.config) if given.config else BridgeConfig()
    options: dict[str, Any] = {
        "name": given.name,
        "domain": given.domain,
        "listen": given.listen and tuple(given.listen),
        "connect": given.connect and tuple(given.connect),
        "timeout": given.timeout,
        "zenoh": given.zenoh,
        "fleet": given.fleet,
        "trust_network": given.trust_network or None,
    }
    files = (given.certificate, given.key, given.authority)
    if any(files):
        if not all(files):
            raise InvalidArgument("--certificate, --key and --authority must be given together")
        options["tls"] = Tls(*files)
    return replace(config, **{name: value for name, value in options.items() if value is not None})


def _status(given: argparse.Namespace) -> int:
    status = status_of(given.domain)
    if status is None:
        print("there is no bridge in this domain")
        return 1
    if given.json:
        # The bridge may have another version.
        print_record("bridge", {name: status.get(name) for name in KINDS["bridge"].fields})
    else:
        print(_text_of(status))
    return 0


def _text_of(status: dict[str, Any]) -> str:
    lines = [f"{status['machine']}: {status['publishers']} publishers, bridge {status['bridge']}"]
    for peer in status["peers"]:
        state = "connected" if peer["connected"] else "cut"
        clock = f"clock {peer['clock_offset_ns'] / 1e6:+.3f} ms"
        if peer["clock_uncertainty_ns"] is None:
            clock = "clock unknown"
        else:
            clock += f" +- {peer['clock_uncertainty_ns'] / 1e6:.3f} ms"
        lines.append(f"  {peer['machine']} at {peer['address']}: {state}, {clock}")
        for name in ("sending", "receiving"):
            for stream in peer[name]:
                lines.append(
                    f"    {name} {stream['topic']}: {stream['samples']} samples, "
                    f"{stream['bytes'] / 1e6:.1f} MB"
                )
        for kind in ("queues", "services"):
            if peer[kind]:
                lines.append(f"    {kind}: {', '.join(peer[kind])}")
    for gone in status.get("gone", []):
        since = time.strftime("%Y-%m-%d %H:%M:%S", time.localtime(time.time() - gone["gone_s"]))
        lines.append(f"  {gone['machine']} at {gone['address']}: gone since {since}: {gone['why']}")
    return "\n".join(lines)
