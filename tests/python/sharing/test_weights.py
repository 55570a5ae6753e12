"""One copy of a model's weights for several processes."""

from __future__ import annotations

import mmap
import subprocess
import sys
from pathlib import Path

import pytest

import tensorbus as tb
from support.repository import ROOT

torch = pytest.importorskip("torch")

EXAMPLE = ROOT / "examples/shared_weights/run.py"


def make_model(width: int = 4) -> torch.nn.Module:
    return torch.nn.Sequential(
        torch.nn.Linear(3, width), torch.nn.BatchNorm1d(width), torch.nn.Linear(width, 2)
    )


@pytest.fixture
def model() -> torch.nn.Module:
    return make_model().eval()


def test_a_model_takes_shared_weights_for_its_own() -> None:
    model = make_model(2000).eval()
    with tb.share(model.state_dict()) as shared:
        with torch.device("meta"):
            other = make_model(2000).eval()
        result = tb.load_state_dict(other, shared.handle)
        third = make_model(2000).eval()
        tb.load_state_dict(third, str(shared.handle))
    assert not result.missing_keys
    assert not result.unexpected_keys
    batch = torch.randn(5, 3)
    torch.testing.assert_close(other(batch), model(batch))
    for mine, theirs in zip(other.state_dict().values(), third.state_dict().values(), strict=True):
        shares = mine.data_ptr() == theirs.data_ptr()
        assert shares == (mine.nbytes >= mmap.PAGESIZE)  # what has less than a page is copied
    assert all(isinstance(weight, torch.nn.Parameter) for weight in other.parameters())
    assert not any(weight.requires_grad for weight in other.parameters())


def test_weights_of_several_processes_are_trained_together(model: torch.nn.Module) -> None:
    with tb.share(model.state_dict(), shared=True) as shared:
        one, other = make_model(), make_model()
        tb.load_state_dict(one, shared.handle, access="shared")
        tb.load_state_dict(other, shared.handle, access="shared")
    optimizer = torch.optim.SGD(one.parameters(), lr=0.1)
    before = other[0].weight.clone()
    # Squares: the sum of what a batch norm gives out does not depend on the layer before it.
    one(torch.randn(5, 3)).square().sum().backward()
    optimizer.step()
    assert not torch.equal(before, other[0].weight)
    assert torch.equal(one[0].weight, other[0].weight)


def test_private_weights_change_here_alone(model: torch.nn.Module) -> None:
    with tb.share(model.state_dict()) as shared:
        own = make_model()
        tb.load_state_dict(own, shared.handle, access="private")
        with torch.no_grad():
            own[0].weight.zero_()
        seen = tb.attach(shared.handle)
    assert torch.equal(seen["0.weight"], model[0].weight)


def test_names_that_do_not_fit_are_told_as_torch_does(model: torch.nn.Module) -> None:
    with tb.share({"0.weight": model[0].weight.detach()}) as shared:
        other = make_model()
        before = other.state_dict(keep_vars=True)
        with pytest.raises(RuntimeError, match="Missing key"):
            tb.load_state_dict(other, shared.handle)
        after = other.state_dict(keep_vars=True)
        assert all(after[name] is tensor for name, tensor in before.items())
        result = tb.load_state_dict(make_model(), shared.handle, strict=False)
    assert "2.bias" in result.missing_keys


def test_what_is_no_dictionary_is_refused(model: torch.nn.Module) -> None:
    with (
        tb.share(model[0].weight.detach()) as shared,
        pytest.raises(tb.InvalidArgument, match="state_dict"),
    ):
        tb.load_state_dict(make_model(), shared.handle)


@pytest.mark.timeout(300)  # it imports PyTorch in four processes
def test_the_example_runs_and_its_workers_agree(tmp_path: Path) -> None:
    done = subprocess.run(
        [sys.executable, EXAMPLE, "--width", "48", "--layers", "1", "--workers", "1", "2",
         "--file", tmp_path / "weights.pt"],
        capture_output=True, text=True, timeout=240, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    assert len(done.stdout.splitlines()) == 4
