"""Attaching to what is shared on another machine: two domains of this host, each with a bridge."""

from __future__ import annotations

import signal
import threading
from contextlib import suppress
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import tensorbus as tb
from support.bridge.bridges import STATUS_TOPIC, Machine, Relay, two_machines
from support.harness import PATIENCE, Elsewhere, eventually, hear, tell
from tensorbus._sharing.elsewhere import copy_of

Pair = tuple[Machine, Machine]


def attach(machine: Machine, handle: Any, **options: Any) -> Any:
    return tb.attach(handle, domain=machine.domain, **{"timeout": PATIENCE, **options})


def fetched(machine: Machine) -> int:
    """Shares that its bridge has fetched; of a status that comes after this call."""
    with tb.Subscriber[Any](STATUS_TOPIC, domain=machine.domain, timeout=PATIENCE) as statuses:
        statuses.receive()
        count: int = statuses.receive().data["shares"]["fetched"]
        return count


@pytest.mark.parametrize("access", ["copy-on-write", "read", "private"])
def test_a_share_of_another_machine_is_attached_to(pair: Pair, access: str) -> None:
    here, there = pair
    data = {"image": np.arange(24, dtype=np.float32).reshape(4, 6).T, "id": 7, "empty": np.empty(0)}
    with tb.share(data, domain=here.domain) as shared:
        got = attach(there, str(shared.handle), access=access)
    assert got["id"] == 7
    assert np.array_equal(got["image"], data["image"])
    assert got["image"].strides == data["image"].strides
    assert got["image"].flags.writeable == (access != "read")
    assert got["empty"].shape == (0,)


def test_the_tensors_come_once_however_many_attach(pair: Pair) -> None:
    here, there = pair
    before = fetched(there)
    with tb.share(np.ones(1 << 20), domain=here.domain) as shared:
        found: list[Any] = []
        threads = [
            threading.Thread(target=lambda: found.append(attach(there, shared.handle)))
            for _ in range(4)
        ]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert attach(there, shared.handle).sum() == 1 << 20
    assert [one.sum() for one in found] == [1 << 20] * 4
    assert fetched(there) == before + 1


def test_what_is_no_longer_shared_is_closed_and_what_was_attached_stays(pair: Pair) -> None:
    here, there = pair
    with tb.share({"x": np.arange(3)}, domain=here.domain) as shared:
        got = attach(there, shared.handle)
    with pytest.raises(tb.Closed, match="no longer"):
        attach(there, shared.handle)
    assert got["x"].tolist() == [0, 1, 2]


def test_each_attach_is_a_use(pair: Pair) -> None:
    here, there = pair
    with tb.share(np.arange(3), uses=1, domain=here.domain) as shared:
        assert attach(there, shared.handle).tolist() == [0, 1, 2]
        assert not shared.open
        with pytest.raises(tb.Closed):
            attach(there, shared.handle)
    with tb.share(np.arange(3), uses=3, domain=here.domain) as shared:
        for machine in (there, there, here):
            assert attach(machine, shared.handle).tolist() == [0, 1, 2]
        with pytest.raises(tb.Closed):
            attach(there, shared.handle)


def test_nobody_writes_to_the_memory_of_another_machine(pair: Pair) -> None:
    here, there = pair
    with (
        tb.share(np.arange(3), shared=True, domain=here.domain) as shared,
        pytest.raises(tb.AccessDenied, match="the machine here"),
    ):
        attach(there, shared.handle, access="shared")


def test_an_attach_that_fails_does_not_take_the_copy_from_others(
    pair: Pair, elsewhere: Elsewhere
) -> None:
    here, there = pair

    def share_it(domain: str) -> None:
        with tb.share(np.arange(3), domain=domain) as shared:
            tell(str(shared.handle))
            hear()

    other = elsewhere.start(share_it, here.domain)
    handle = tb.Handle(other.hear())
    copy = copy_of(handle._core, "read", PATIENCE, tb.participant(there.domain))
    assert copy is not None
    with pytest.raises(tb.AccessDenied):
        attach(there, handle, access="shared")
    other.stop()
    with pytest.raises(tb.Timeout):
        attach(there, handle, timeout=0.05)
    other.signal(signal.SIGCONT)
    # What another program was given before, and attaches to now.
    assert attach(there, copy.bytes()).tolist() == [0, 1, 2]


def test_an_attach_that_is_too_late_says_nothing_of_queues(
    pair: Pair, capfd: pytest.CaptureFixture[str]
) -> None:
    here, there = pair
    with tb.share(np.arange(3), domain=here.domain) as shared:
        for _ in range(50):
            with suppress(tb.Timeout):
                attach(there, shared.handle, timeout=0.002)
    assert capfd.readouterr().err == ""


def test_a_handle_that_is_wrong_or_of_nobody(pair: Pair, tmp_path: Path) -> None:
    here, there = pair
    with pytest.raises(tb.InvalidArgument):
        attach(there, "nonsense")
    with (
        tb.share(np.arange(3), domain=str(tmp_path / "elsewhere")) as shared,
        pytest.raises(tb.Closed, match="another domain"),
    ):
        attach(there, shared.handle)
    with tb.share(np.arange(3), domain=here.domain) as one:
        handle = bytes(one.handle)
        changed = [handle[:at] + bytes([handle[at] ^ 1]) + handle[at + 1 :] for at in range(4, 60)]
        for each in changed:
            with pytest.raises((tb.Closed, tb.InvalidArgument)):
                attach(there, each)
        assert attach(there, handle).tolist() == [0, 1, 2]


def test_a_share_that_does_not_fit_into_the_budget(tmp_path: Path) -> None:
    config = tmp_path / "bridge.toml"
    config.write_text(f"budget = {16 << 20}")
    with (
        two_machines(tmp_path, "--config", str(config)) as (here, there),
        tb.share(np.ones(4 << 20), domain=here.domain) as shared,
        pytest.raises(tb.OutOfMemory, match="budget"),
    ):
        attach(there, shared.handle)


def test_a_stopped_process_holds_up_its_own_shares_only(pair: Pair, elsewhere: Elsewhere) -> None:
    here, there = pair

    def share_it(domain: str) -> None:
        with tb.share(np.arange(3), domain=domain) as shared:
            tell(str(shared.handle))
            hear()

    other = elsewhere.start(share_it, here.domain)
    handle = other.hear()
    other.stop()
    with pytest.raises(tb.Timeout):
        attach(there, handle, timeout=0.1)
    with tb.share(np.arange(3), domain=here.domain) as shared:
        assert attach(there, shared.handle).tolist() == [0, 1, 2]
    other.signal(signal.SIGCONT)
    assert attach(there, handle).tolist() == [0, 1, 2]
    other.kill()
    with pytest.raises(tb.Closed):
        attach(there, handle)


def test_a_cut_shorter_than_the_timeout_costs_an_attach_nothing(tmp_path: Path) -> None:
    relay = Relay()
    try:
        with (
            two_machines(tmp_path, through=relay) as (here, there),
            tb.share(np.arange(3), domain=here.domain) as shared,
        ):
            relay.cut()
            with pytest.raises(tb.Timeout):
                attach(there, shared.handle, timeout=0.2)
            threading.Timer(0.1, relay.mend).start()
            assert attach(there, shared.handle).tolist() == [0, 1, 2]
    finally:
        relay.close()


def test_after_a_longer_cut_a_share_is_closed_and_found_again(tmp_path: Path) -> None:
    relay = Relay()
    try:
        with (
            two_machines(tmp_path, "--timeout", "0.3", through=relay) as (here, there),
            tb.share(np.arange(3), domain=here.domain) as shared,
        ):
            attach(there, shared.handle)
            relay.cut()
            with pytest.raises(tb.Closed):
                attach(there, shared.handle)
            relay.mend()

            def found() -> bool:
                with suppress(tb.Closed):
                    return bool(attach(there, shared.handle).tolist() == [0, 1, 2])
                return False

            eventually(found)
    finally:
        relay.close()


def test_without_a_bridge_a_share_of_nobody_is_closed_at_once(tmp_path: Path) -> None:
    with (
        tb.share(np.arange(3), domain=str(tmp_path / "one")) as shared,
        pytest.raises(tb.Closed, match="another domain"),
    ):
        tb.attach(shared.handle, domain=str(tmp_path / "other"))
