"""Tests what this machine can do for Tensorbus (docs/doctor.md).

tensorbus doctor            # or: python -m tensorbus doctor
tensorbus doctor --json

report = tensorbus.doctor.examine()
report.host.can_share, report.host.domain.why_not       # (True, None)
"""

from __future__ import annotations

import platform
from collections.abc import Iterator
from dataclasses import asdict, dataclass, fields
from importlib import metadata
from typing import TypeVar

from tensorbus import _core

_T = TypeVar("_T")


@dataclass(frozen=True)
class Finding:
    """Whether something works, and if not, why."""

    can: bool
    why_not: str | None  # None: it can


@dataclass(frozen=True)
class Versions:
    """Installed versions; None: not installed."""

    tensorbus: str
    python: str
    torch: str | None
    numpy: str | None


@dataclass(frozen=True)
class Host:
    """What processes on this machine can share in main memory."""

    can_share: bool  # tensors travel by reference: all findings but huge_pages are positive
    kernel: str
    kernel_version: Finding
    pidfd: Finding  # the death of another process is seen at once
    shared_memory: Finding
    huge_pages: Finding  # optional: make shared memory faster to allocate
    domain_path: str
    domain: Finding
    domain_exists: bool  # False: the first process that uses it makes it
    other_domains: tuple[str, ...]  # other domains of this user that have processes now
    memory_bytes: int  # memory that this process may still take
    memory_limit: str  # the limit that bounds `memory_bytes`
    open_files: int | None  # RLIMIT_NOFILE; None: unlimited
    locked_bytes: int | None  # RLIMIT_MEMLOCK; Tensorbus locks nothing; None: unlimited


@dataclass(frozen=True)
class Device:
    """A GPU that this process sees, and its abilities."""

    can_share: (
        bool  # its tensors travel by reference: context, shared_memory and order are positive
    )
    ordinal: int
    name: str
    uuid: str
    capability: str  # "9.0"
    memory_bytes: int
    integrated: bool
    mig: bool
    context: Finding
    shared_memory: Finding
    read_only_mapping: Finding
    order: Finding
    stream_waits: Finding  # if not, receiving a tensor blocks until it is written
    legacy_ipc: Finding
    pool_ipc: Finding  # if not, memory of pools is copied once on the GPU


@dataclass(frozen=True)
class Peer:
    """Whether the GPU `reader` can access memory of the GPU `owner`; both are ordinals."""

    reader: int
    owner: int
    access: Finding


@dataclass(frozen=True)
class Cuda:
    """The driver and its devices."""

    can_share: bool  # tensors of at least one device travel by reference
    driver: Finding
    driver_version: str | None  # the CUDA version: "13.0"
    wsl: bool
    devices: tuple[Device, ...]
    peers: tuple[Peer, ...]


@dataclass(frozen=True)
class Report:
    """The full report. ``tensorbus doctor --json`` prints its `dataclasses.asdict`."""

    versions: Versions
    host: Host
    cuda: Cuda


def examine(domain: str | None = None) -> Report:
    """Runs all tests of this machine. The domain's directory is checked, not created.

    The primary context of each GPU is created, which can take some seconds. It is kept until this
    process exits; everything else is released.

    Args:
        domain: see `tensorbus.participant`.

    >>> examine().host.can_share  # doctest: +SKIP
    True
    """
    return Report(_versions(), _host(domain), _cuda())


def _versions() -> Versions:
    return Versions(
        _core.version, platform.python_version(), _installed("torch"), _installed("numpy")
    )


def _installed(package: str) -> str | None:
    try:
        return metadata.version(package)
    except metadata.PackageNotFoundError:
        return None


def _filled(kind: type[_T], found: object, **others: object) -> _T:
    """A dataclass with the core's findings of the same names; `others` are the remaining fields."""
    names = [field.name for field in fields(kind) if field.name not in others]  # type: ignore[arg-type]
    return kind(**{name: _value(getattr(found, name)) for name in names}, **others)


def _value(found: object) -> object:
    return _finding(found) if isinstance(found, _core.Finding) else found


def _finding(found: _core.Finding) -> Finding:
    return Finding(found.can, found.why_not or None)


def _host(domain: str | None) -> Host:
    found = _core.probe_host(domain or "")
    return _filled(Host, found, other_domains=tuple(found.other_domains))


def _cuda() -> Cuda:
    found = _core.probe_cuda()
    version = found.driver_version
    devices = tuple(map(_device, found.devices))
    return Cuda(
        can_share=any(device.can_share for device in devices),
        driver=_finding(found.driver),
        driver_version=f"{version // 1000}.{version % 1000 // 10}" if version else None,
        wsl=found.wsl,
        devices=devices,
        peers=tuple(Peer(peer.reader, peer.owner, _finding(peer.access)) for peer in found.peers),
    )


def _device(found: _core.DeviceFindings) -> Device:
    capability = f"{found.capability_major}.{found.capability_minor}"
    return _filled(Device, found, capability=capability)


# A line of the text: a name and a finding.
_Row = tuple[str, str]


def text_of(report: Report) -> str:
    """The report as text. Lines are not wrapped: a reason may be long."""
    parts = [
        _section("Versions", _version_rows(report.versions)),
        _section("Host memory", _host_rows(report.host)),
        _section("CUDA", _cuda_rows(report.cuda)),
        *(_section(_title(device), _device_rows(device)) for device in report.cuda.devices),
    ]
    if report.cuda.peers:
        parts.append(_section("From one GPU to another", _peer_rows(report.cuda.peers)))
    parts.append("\n".join(_verdict(report)))
    return "\n\n".join(parts)


def _section(title: str, rows: Iterator[_Row]) -> str:
    lines = list(rows)
    width = max(len(what) for what, _ in lines)
    return "\n".join([title, *(f"  {what:<{width}}  {how}" for what, how in lines)])


def _version_rows(versions: Versions) -> Iterator[_Row]:
    for name, version in asdict(versions).items():
        yield name, version or "not installed"


def _host_rows(host: Host) -> Iterator[_Row]:
    yield "kernel", _text(host.kernel_version, f"yes: Linux {host.kernel}")
    yield "pidfd", _text(host.pidfd)
    yield "sealed memfd", _text(host.shared_memory)
    yield "huge pages", _text(host.huge_pages)
    missing = "" if host.domain_exists else " (the first process that uses it will make it)"
    yield "domain", _text(host.domain, f"yes: {host.domain_path}{missing}")
    for other in host.other_domains:
        yield "beside it", f"{other}: a separate bus with processes of this user"
    yield "room for memory", f"{_size(host.memory_bytes)}: {host.memory_limit}"
    yield "RLIMIT_NOFILE", "unlimited" if host.open_files is None else str(host.open_files)
    yield "RLIMIT_MEMLOCK", "unlimited" if host.locked_bytes is None else _size(host.locked_bytes)


def _cuda_rows(cuda: Cuda) -> Iterator[_Row]:
    yield "driver", _text(cuda.driver, f"yes: for CUDA {cuda.driver_version}")
    yield "devices", str(len(cuda.devices))
    if cuda.wsl:
        yield "Windows", "yes: this is WSL2"


def _title(device: Device) -> str:
    kind = ", integrated" if device.integrated else ", a MIG instance" if device.mig else ""
    return f"cuda:{device.ordinal}: {device.name}{kind}"


def _device_rows(device: Device) -> Iterator[_Row]:
    yield "UUID", device.uuid
    yield "compute capability", device.capability
    yield "memory", _size(device.memory_bytes)
    yield "context", _text(device.context)
    yield "shareable memory", _text(device.shared_memory)
    yield "mapped read-only", _text(device.read_only_mapping)
    yield "order by timelines", _text(device.order)
    yield "streams wait", _text(device.stream_waits)
    yield "legacy IPC handles", _text(device.legacy_ipc, "yes: can be exported")
    yield "memory pools", _text(device.pool_ipc, "yes: can be exported")


def _peer_rows(peers: tuple[Peer, ...]) -> Iterator[_Row]:
    for peer in peers:
        yield f"cuda:{peer.reader} accesses cuda:{peer.owner}", _text(peer.access)


def _verdict(report: Report) -> Iterator[str]:
    yield f"Tensors in main memory {_travel(report.host.can_share)}."
    if not report.cuda.devices:
        yield "There is no GPU here that Tensorbus can use."
    for device in report.cuda.devices:
        yield f"Tensors on cuda:{device.ordinal} {_travel(device.can_share)}."


def _travel(can: bool) -> str:
    return "are sent by reference" if can else "cannot be sent by reference"


def _text(finding: Finding, can: str = "yes") -> str:
    return can if finding.can else f"no: {finding.why_not}"


def _size(count: float) -> str:
    for unit in ("bytes", "KiB", "MiB", "GiB"):
        if count < 1024:
            return f"{count:.4g} {unit}"
        count /= 1024
    return f"{count:.4g} TiB"
