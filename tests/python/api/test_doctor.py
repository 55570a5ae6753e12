"""`tensorbus doctor` says what a machine can do, and why not."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from dataclasses import asdict, fields
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import tensorbus as tb
from support.cuda.standin import LIBRARY, needs_standin
from support.harness import PATIENCE, Elsewhere, tell
from support.repository import ROOT
from tensorbus import doctor


def run(
    *options: str, status: int = 0, driver: str | Path = "off", **environment: str
) -> subprocess.CompletedProcess[str]:
    done = subprocess.run(
        [sys.executable, "-m", "tensorbus", "doctor", *options],
        capture_output=True,
        text=True,
        check=False,
        timeout=2 * PATIENCE,
        env={**os.environ, "TENSORBUS_CUDA_DRIVER": str(driver), **environment},
    )
    assert (done.returncode, done.stderr) == (status, ""), done.stdout + done.stderr
    return done


def report_of(*options: str, **settings: Any) -> dict[str, Any]:
    report: dict[str, Any] = json.loads(run("--json", *options, **settings).stdout)
    return report


def names(kind: type) -> set[str]:
    return {field.name for field in fields(kind)}


def works(finding: object) -> bool:
    assert isinstance(finding, dict)
    assert set(finding) == {"can", "why_not"}
    assert finding["can"] == (finding["why_not"] is None)
    return bool(finding["can"])


def test_a_machine_without_a_gpu_shares_host_memory(domain: str) -> None:
    report = report_of()
    assert set(report) == {"kind", "versions", "host", "cuda"}
    assert report["versions"]["tensorbus"] == tb.__version__
    assert report["versions"]["numpy"] == np.__version__
    host = report["host"]
    assert set(host) == names(doctor.Host)
    assert host["can_share"]
    assert all(works(host[what]) for what in ("kernel_version", "pidfd", "shared_memory", "domain"))
    assert (host["kernel"], host["domain_path"]) == (os.uname().release, domain)
    assert host["memory_bytes"] > 0
    works(host["huge_pages"])
    cuda = report["cuda"]
    assert set(cuda) == names(doctor.Cuda)
    assert not works(cuda["driver"])
    assert "TENSORBUS_CUDA_DRIVER=off" in cuda["driver"]["why_not"]
    assert (cuda["can_share"], cuda["driver_version"], cuda["devices"]) == (False, None, [])


def test_the_text_is_for_people(domain: str) -> None:
    text = run().stdout
    makes = "(the first process that uses it will make it)"
    assert f"domain           yes: {domain} {makes}\n" in text
    os.mkdir(domain, 0o700)
    assert f"domain           yes: {domain}\n" in run().stdout
    assert "driver   no: CUDA cannot be used here: TENSORBUS_CUDA_DRIVER=off\n" in text
    assert text.endswith("There is no GPU here that Tensorbus can use.\n")


def test_what_keeps_huge_pages_away_is_named_with_the_remedy() -> None:
    finding = report_of()["host"]["huge_pages"]
    setting = Path("/sys/kernel/mm/transparent_hugepage/shmem_enabled")
    if not setting.exists() or "[never]" not in setting.read_text():
        pytest.skip("this machine may give huge pages, or has none")
    assert finding["why_not"] == f'{setting} is "never": as root, write "advise" into it'
    assert f"  huge pages       no: {finding['why_not']}\n" in run().stdout


def test_the_domain_is_not_made_and_nothing_is_left_in_it(domain: str) -> None:
    run()
    assert not os.path.exists(domain)
    os.mkdir(domain, 0o700)
    run()
    assert os.listdir(domain) == []


def test_the_exit_status_is_of_host_memory_and_of_gpus_if_asked(domain: str) -> None:
    run("--cuda", status=1)
    os.mkdir(domain)
    Path(domain).chmod(0o777)
    report = report_of(status=1)
    assert not report["host"]["can_share"]
    assert "run chmod 700 on it" in report["host"]["domain"]["why_not"]
    assert report_of("--domain", domain + "2")["host"]["can_share"]
    below = report_of("--domain", domain + "/own", status=1)
    assert f"{domain}, on the way to it, can be written to" in below["host"]["domain"]["why_not"]
    text = run(status=1).stdout
    assert "Tensors in main memory cannot be sent by reference.\n" in text


def test_a_domain_that_is_none_is_said_to_be() -> None:
    report = report_of("--domain", "..", status=1)
    assert report["host"]["domain"]["why_not"] == 'domain "..": expected a name or a path'


@needs_standin
def test_gpus_are_tried_out() -> None:
    report = report_of("--cuda", driver=LIBRARY)
    cuda = report["cuda"]
    assert works(cuda["driver"])
    assert (cuda["driver_version"], cuda["can_share"]) == ("13.0", True)
    assert [device["name"] for device in cuda["devices"]] == ["Stand-in 0", "Stand-in 1"]
    for device in cuda["devices"]:
        assert set(device) == names(doctor.Device)
        assert device["capability"] == "9.0"
        assert all(works(found) for found in device.values() if isinstance(found, dict))
    assert [(peer["reader"], peer["owner"]) for peer in cuda["peers"]] == [(0, 1), (1, 0)]
    assert all(set(peer) == names(doctor.Peer) and works(peer["access"]) for peer in cuda["peers"])


@needs_standin
def test_what_a_gpu_cannot_do_is_named_with_the_call_that_failed() -> None:
    without: dict[str, Any] = {"driver": LIBRARY, "STANDIN_WITHOUT": "posix_fd,peer"}
    (first, second) = report_of(**without)["cuda"]["devices"]
    assert first["shared_memory"] == second["shared_memory"]
    assert "CUDA_ERROR_NOT_SUPPORTED" in first["shared_memory"]["why_not"]
    assert (first["can_share"], works(first["order"])) == (False, True)
    text = run("--cuda", status=1, **without).stdout
    assert "\ncuda:1: Stand-in 1\n" in text
    assert "  legacy IPC handles  yes: can be exported\n" in text
    assert "  memory pools        yes: can be exported\n" in text
    assert "  cuda:0 accesses cuda:1  no: cuDeviceCanAccessPeer returned 0\n" in text
    assert text.endswith("Tensors on cuda:1 cannot be sent by reference.\n")
    run(**without)  # host memory works all the same


def test_the_same_is_there_for_programs(elsewhere: Elsewhere, domain: str) -> None:
    def look() -> None:
        import os
        import sys
        from dataclasses import asdict

        os.environ["TENSORBUS_CUDA_DRIVER"] = "off"
        from tensorbus import doctor

        tell(asdict(doctor.examine()))
        assert not {"torch", "numpy"} & set(sys.modules)

    other = elsewhere.start(look)
    assert set(other.hear()["host"]) == names(doctor.Host)


@needs_standin
def test_a_forked_child_is_told_that_it_is_one(elsewhere: Elsewhere) -> None:
    def fork(standin: str) -> None:
        import os

        os.environ["TENSORBUS_CUDA_DRIVER"] = standin
        from support.harness import in_a_fork
        from tensorbus import doctor

        def look() -> None:
            report = doctor.examine()
            assert "was forked" in str(report.cuda.driver.why_not)
            assert report.host.can_share

        assert doctor.examine().cuda.driver.can
        in_a_fork(look)

    elsewhere.run(fork, str(LIBRARY))


def test_the_documented_keys_are_those_of_the_report() -> None:
    page = (ROOT / "docs" / "doctor.md").read_text()
    kinds = (doctor.Versions, doctor.Host, doctor.Cuda, doctor.Device, doctor.Peer)
    missing = {name for kind in kinds for name in names(kind) if f"`{name}`" not in page}
    assert not missing
    assert set(asdict(doctor.Finding(True, None))) == {"can", "why_not"}
