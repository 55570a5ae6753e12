"""Tensors behind a handle: what carries it, what is attached, for how long, what is refused."""

from __future__ import annotations

import gc
import json
import os
import pickle
import signal
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from types import ModuleType
from typing import Any

import numpy as np
import pytest

import tensorbus as tb
from support.harness import (
    PATIENCE,
    SANITIZED,
    Elsewhere,
    Process,
    eventually,
    hear,
    in_a_fork,
    tell,
)

CARRIERS: dict[str, Callable[[Any], Any]] = {
    "itself": lambda handle: handle,
    "text": str,
    "a line of text": lambda handle: f"{handle}\n",
    "bytes": bytes,
    "a memoryview": lambda handle: memoryview(bytes(handle)),
    "a dict": lambda handle: handle.to_dict(),
    "JSON": lambda handle: json.loads(json.dumps(handle.to_dict())),
    "pickle": lambda handle: pickle.loads(pickle.dumps(handle)),
}


def pattern(seed: int) -> np.ndarray[Any, Any]:
    return np.arange(100_000, dtype=np.uint64) * 3 + seed


def seed_of(words: np.ndarray[Any, Any]) -> int:
    """Which pattern it is; -1 for none."""
    return int(words[0]) if np.array_equal(words, pattern(int(words[0]))) else -1


def used() -> int:
    return int(tb.participant().arena["used_bytes"])


def share_until_told(seed: int, options: dict[str, Any]) -> None:
    """Shares a pattern, tells the handle, and after each word it hears what its arena holds."""
    shared = tb.share(pattern(seed), **options)
    tell(str(shared.handle))
    while (order := hear()) != "exit":
        if order == "close":
            shared.close()
        tell(used())


def attach_until_told(text: str) -> None:
    held = tb.attach(text, timeout=PATIENCE)
    tell(seed_of(held))
    while hear() != "exit":
        tell(seed_of(held))


def ask(other: Process, order: str) -> Any:
    other.tell(order)
    return other.hear()


@pytest.mark.parametrize("carrier", CARRIERS)
def test_any_carrier_will_do(carrier: str) -> None:
    with tb.share(pattern(1)) as shared:
        carried = CARRIERS[carrier](shared.handle)
        assert seed_of(tb.attach(carried, timeout=PATIENCE)) == 1
        assert tb.Handle(carried) == shared.handle


def test_a_handle_is_a_value() -> None:
    with tb.share(pattern(1)) as shared, tb.share(pattern(1)) as other:
        handle = shared.handle
        same = tb.Handle(str(handle))
        assert handle == same
        assert hash(handle) == hash(same)
        assert len({handle, same, other.handle}) == 2
        assert handle != other.handle
        assert handle != str(handle)
        assert handle.owner == tb.participant().id
        with pytest.raises(AttributeError, match="cannot be changed"):
            handle.owner = "me"  # type: ignore[misc]


def test_the_dictionary_of_a_handle_is_for_people() -> None:
    transposed = np.zeros((2, 3), "float32").T
    with tb.share([transposed, np.zeros(4, "int8")]) as shared:
        fields = shared.handle.to_dict()
    assert fields["owner"] == tb.participant().id
    assert fields["count"] == 2
    first = fields["tensors"][0]
    assert (first["dtype"], first["shape"], first["device"]) == ("float32", [3, 2], "cpu")
    assert not first["requires_grad"]


def test_a_message_comes_out_as_it_went_in(torch: ModuleType) -> None:
    message = {
        "name": "frame",
        "id": 7,
        "ratio": 0.5,
        "nothing": None,
        "raw": b"\0\1",
        "pair": (np.arange(3), torch.arange(4)),
        "list": [torch.ones(2, 2), {"deep": np.zeros((2, 0), "float16")}],
    }
    with tb.share(message) as shared:
        found = tb.attach(shared.handle)
    assert {key: found[key] for key in ("name", "id", "ratio", "nothing", "raw")} == {
        key: message[key] for key in ("name", "id", "ratio", "nothing", "raw")
    }
    assert isinstance(found["pair"], tuple)
    assert np.array_equal(found["pair"][0], np.arange(3))
    assert torch.equal(found["pair"][1], torch.arange(4))
    assert torch.equal(found["list"][0], torch.ones(2, 2))
    assert found["list"][1]["deep"].shape == (2, 0)


@pytest.mark.parametrize("dtype", ["bool", "uint8", "int16", "float16", "float64", "complex64"])
def test_numpy_arrays_keep_dtype_shape_and_strides(dtype: str) -> None:
    array = np.arange(24).reshape(2, 3, 4).astype(dtype).transpose(2, 0, 1)[::2]
    with tb.share(array) as shared:
        found = tb.attach(shared.handle)
    assert found.dtype == array.dtype
    assert np.array_equal(found, array)
    assert found.flags.writeable


def test_torch_tensors_keep_what_they_are(torch: ModuleType) -> None:
    strided = torch.arange(12, dtype=torch.bfloat16).reshape(3, 4).t()
    wants_grad = torch.ones(3, requires_grad=True)
    parameter = torch.nn.Parameter(torch.full((2, 2), 5.0))
    with tb.share([strided, wants_grad, parameter]) as shared:
        assert shared.handle.to_dict()["tensors"][1]["requires_grad"]
        found = tb.attach(shared.handle)
    assert found[0].dtype == torch.bfloat16
    assert found[0].stride() == strided.stride()
    assert torch.equal(found[0], strided)
    assert found[1].requires_grad
    assert isinstance(found[2], torch.nn.Parameter)
    assert torch.equal(found[2], parameter)


def test_it_is_attached_in_any_process_any_number_of_times(elsewhere: Elsewhere) -> None:
    owner = elsewhere.start(share_until_told, 3, {})
    text = owner.hear()
    others = [elsewhere.start(attach_until_told, text) for _ in range(2)]
    mine = [tb.attach(text, timeout=PATIENCE) for _ in range(3)]
    assert [seed_of(each) for each in mine] == [3, 3, 3]
    assert [other.hear() for other in others] == [3, 3]
    assert len({each.__array_interface__["data"][0] for each in mine}) == 1
    assert used() == 0, "nothing was copied"
    owner.tell("exit")
    owner.finish()
    assert [ask(other, "look") for other in others] == [3, 3]
    assert [seed_of(each) for each in mine] == [3, 3, 3]


def test_the_owner_attaches_its_own() -> None:
    with tb.share(pattern(4)) as shared:
        assert seed_of(tb.attach(shared.handle, timeout=PATIENCE)) == 4


def test_a_share_with_a_ttl_goes_on_without_its_object() -> None:
    def handle_of(**options: Any) -> tb.Handle:
        return tb.share(np.arange(3), **options).handle

    lasting, once = handle_of(ttl=PATIENCE), handle_of(ttl=PATIENCE, uses=1)
    for _ in range(2):
        assert tb.attach(lasting).tolist() == [0, 1, 2]
    assert tb.attach(once).tolist() == [0, 1, 2]
    for ended in (once, handle_of(uses=1), handle_of(), handle_of(ttl=0.01)):
        eventually(partial(has_ended, ended))


def has_ended(handle: tb.Handle) -> bool:
    try:
        tb.attach(handle)
    except tb.Closed:
        return True
    return False


def test_what_is_closed_stays_with_who_has_it_and_refuses_who_comes(elsewhere: Elsewhere) -> None:
    owner = elsewhere.start(share_until_told, 5, {})
    text = owner.hear()
    held = tb.attach(text, timeout=PATIENCE)
    assert ask(owner, "close") > 0
    with pytest.raises(tb.Closed, match="no longer shared"):
        tb.attach(text, timeout=PATIENCE)
    assert seed_of(held) == 5
    del held
    eventually(lambda: ask(owner, "used") == 0)


@pytest.mark.parametrize("end", ["exit", "SIGKILL"])
def test_what_is_attached_outlives_its_owner(elsewhere: Elsewhere, end: str) -> None:
    owner = elsewhere.start(share_until_told, 6, {})
    text = owner.hear()
    held = tb.attach(text, timeout=PATIENCE)
    if end == "exit":
        owner.tell("exit")
        owner.finish()
    else:
        owner.kill()
    with pytest.raises(tb.Closed, match=r"exited|hung up"):
        tb.attach(text, timeout=PATIENCE)
    assert seed_of(held) == 6


def test_uses_are_counted_and_then_the_memory_goes(elsewhere: Elsewhere) -> None:
    owner = elsewhere.start(share_until_told, 7, {"uses": 2})
    text = owner.hear()
    held = [tb.attach(text, timeout=PATIENCE) for _ in range(2)]
    with pytest.raises(tb.Closed, match="uses"):
        tb.attach(text, timeout=PATIENCE)
    assert [seed_of(each) for each in held] == [7, 7]
    assert ask(owner, "used") > 0
    held.clear()
    eventually(lambda: ask(owner, "used") == 0)


def test_a_ttl_bounds_what_nobody_claims(elsewhere: Elsewhere) -> None:
    owner = elsewhere.start(share_until_told, 8, {"ttl": 0.05})
    text = owner.hear()
    eventually(lambda: ask(owner, "used") == 0)
    with pytest.raises(tb.Closed, match="ttl"):
        tb.attach(text, timeout=PATIENCE)


@pytest.mark.parametrize("options", [{"uses": 0}, {"uses": -1}, {"ttl": 0}, {"ttl": -1.0}])
def test_senseless_bounds_are_refused(options: dict[str, Any]) -> None:
    with pytest.raises(tb.InvalidArgument, match="|".join(options)):
        tb.share(1, **options)


def test_who_may_write_is_seen_by_all(elsewhere: Elsewhere) -> None:
    def write_for_all(text: str) -> None:
        words = tb.attach(text, access="shared", timeout=PATIENCE)
        words[0] = 42
        tell("written")
        hear()
        tell(int(words[1]))

    weights = tb.empty(100, "uint64", shared=True)
    weights[:] = 0
    with tb.share(weights, shared=True) as shared:
        reading = tb.attach(shared.handle)
        other = elsewhere.start(write_for_all, str(shared.handle))
        assert other.hear() == "written"
        assert (int(weights[0]), int(reading[0])) == (42, 42)
        weights[1] = 43
        assert ask(other, "look") == 43


@pytest.mark.parametrize("access", ["copy-on-write", "private"])
def test_a_write_to_attached_memory_is_seen_by_no_other_process(
    elsewhere: Elsewhere, access: str
) -> None:
    def write(text: str, access: str) -> None:
        own = tb.attach(text, access=access, timeout=PATIENCE)
        own[:] = 0
        tell(bool(own.any()))

    with tb.share(pattern(9)) as shared:
        other = elsewhere.start(write, str(shared.handle), access)
        assert other.hear() is False
        assert seed_of(tb.attach(shared.handle)) == 9


def test_who_may_only_read_cannot_write() -> None:
    with tb.share(pattern(10)) as shared:
        with pytest.raises(tb.AccessDenied, match="shared=True"):
            tb.attach(shared.handle, access="shared")
        with pytest.raises(ValueError, match="read-only"):
            tb.attach(shared.handle, access="read")[0] = 1


def test_a_stopped_owner_is_waited_for_no_longer_than_asked(elsewhere: Elsewhere) -> None:
    owner = elsewhere.start(share_until_told, 11, {})
    text = owner.hear()
    owner.stop()
    for _ in range(3):
        with pytest.raises(tb.Timeout):
            tb.attach(text, timeout=0.01)
    owner.signal(signal.SIGCONT)
    assert seed_of(tb.attach(text, timeout=PATIENCE)) == 11
    ask(owner, "close")
    eventually(lambda: ask(owner, "used") == 0)


def test_ctrl_c_ends_an_attach(elsewhere: Elsewhere) -> None:
    def attach_for_ever(text: str) -> None:
        tell("ready")
        try:
            tb.attach(text)
        except KeyboardInterrupt:
            tell("interrupted")

    owner = elsewhere.start(share_until_told, 12, {})
    text = owner.hear()
    owner.stop()
    other = elsewhere.start(attach_for_ever, text)
    assert other.hear() == "ready"
    other.signal_when_asleep(signal.SIGINT)
    assert other.hear() == "interrupted"
    other.finish()
    owner.signal(signal.SIGCONT)
    assert ask(owner, "close") >= 0
    eventually(lambda: ask(owner, "used") == 0)


def changed(fields: dict[str, Any]) -> Iterator[tuple[str, dict[str, Any]]]:
    yield "handle", {}
    yield "handle", {**fields, "handle": 7}
    yield "owner", {**fields, "owner": "0" * 32}
    yield "count", {**fields, "count": 2}
    for name, value in {
        "dtype": "float32",
        "shape": [5],
        "strides": [2],
        "offset": 1,
        "device": "cuda",
        "requires_grad": True,
    }.items():
        yield "tensors", {**fields, "tensors": [{**fields["tensors"][0], name: value}]}


def test_a_forged_dictionary_is_refused_by_the_name_of_its_field() -> None:
    with tb.share(pattern(13)) as shared:
        for name, fields in changed(shared.handle.to_dict()):
            with pytest.raises(tb.InvalidArgument, match=f"handle.'{name}'"):
                tb.attach(fields)
        spare = {"handle": str(shared.handle)}
        assert seed_of(tb.attach(spare)) == 13, "what is not there cannot lie"


def test_a_handle_that_was_cut_or_changed_is_refused() -> None:
    with tb.share(pattern(14)) as shared:
        text, raw = str(shared.handle), bytes(shared.handle)
    wrong: list[Any] = ["", "tensorbus:", text[:-1], text[1:], text + "A", text.lower(), "x" * 100]
    wrong += [b"", raw[:-1], raw + b"\0", bytes([raw[0] ^ 1]) + raw[1:], raw[::-1]]
    for handle in wrong:
        with pytest.raises(tb.InvalidArgument, match="invalid handle"):
            tb.attach(handle)
    for handle in (None, 7, [text]):
        with pytest.raises(tb.InvalidArgument, match="expected a Handle"):
            tb.attach(handle)


def test_a_handle_of_another_domain_is_refused(domain: str) -> None:
    with tb.share(pattern(15), domain=domain + "2") as shared:
        with pytest.raises(tb.Closed, match="another domain"):
            tb.attach(shared.handle)
        assert seed_of(tb.attach(shared.handle, domain=domain + "2")) == 15


def test_threads_attach_at_once(elsewhere: Elsewhere) -> None:
    owners = [elsewhere.start(share_until_told, seed, {}) for seed in range(3)]
    texts = [owner.hear() for owner in owners]

    def attach_many(which: int) -> list[int]:
        return [seed_of(tb.attach(texts[which % 3], timeout=PATIENCE)) for _ in range(20)]

    with ThreadPoolExecutor(6) as pool:
        assert list(pool.map(attach_many, range(6))) == [[which % 3] * 20 for which in range(6)]
    for owner in owners:
        ask(owner, "close")
        eventually(lambda owner=owner: ask(owner, "used") == 0)  # type: ignore[misc]


def test_ten_thousand_attached_tensors_take_no_descriptors(elsewhere: Elsewhere) -> None:
    owner = elsewhere.start(share_until_told, 16, {})
    text = owner.hear()
    held = [tb.attach(text, timeout=PATIENCE)]
    before = len(os.listdir("/proc/self/fd"))
    held += [tb.attach(text, timeout=PATIENCE) for _ in range(10_000)]
    assert len(os.listdir("/proc/self/fd")) <= before  # those of earlier tests may go meanwhile
    assert seed_of(held[-1]) == 16
    ask(owner, "close")
    del held[:-1]
    assert ask(owner, "used") > 0
    held.clear()
    eventually(lambda: ask(owner, "used") == 0)


@pytest.mark.skipif(SANITIZED, reason="its allocator cannot be forked beside threads")
def test_a_child_never_touches_what_its_parent_shares_and_holds(elsewhere: Elsewhere) -> None:
    def run() -> None:
        with tb.share(pattern(17)) as shared:
            held = {"words": tb.attach(shared.handle, timeout=PATIENCE)}

            def child() -> None:
                assert seed_of(held["words"]) == 17
                held.clear()
                gc.collect()
                for use in (lambda: shared.open, shared.close):
                    with pytest.raises(tb.Forked, match="make a new one in the child"):
                        use()
                with shared:
                    pass
                assert seed_of(tb.attach(shared.handle, timeout=PATIENCE)) == 17

            in_a_fork(child)
            assert shared.open
            assert seed_of(held["words"]) == 17
            assert seed_of(tb.attach(shared.handle, timeout=PATIENCE)) == 17
        assert used() > 0
        held.clear()
        eventually(lambda: used() == 0)

    elsewhere.run(run)
