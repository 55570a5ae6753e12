"""The directory that names a bus, and who may use it."""

from __future__ import annotations

import os
import shutil
import stat
from pathlib import Path

import pytest

import tensorbus as tb
from support.harness import PATIENCE, Elsewhere, eventually, joined, tell


def test_a_domain_is_made_for_its_owner_alone(domain: str) -> None:
    assert tb.participant().domain == domain
    status = os.stat(domain)
    assert stat.S_IMODE(status.st_mode) == 0o700
    assert status.st_uid == os.geteuid()


@pytest.mark.parametrize("mode", [0o770, 0o707, 0o777, 0o720, 0o1777])
def test_a_domain_that_others_may_write_to_is_refused(domain: str, mode: int) -> None:
    os.mkdir(domain)
    os.chmod(domain, mode)
    with pytest.raises(tb.AccessDenied, match=rf"others may write to .*{domain}.*chmod 700"):
        tb.Publisher("topic")
    os.chmod(domain, 0o700)
    with joined() as (publisher, subscriber):
        publisher.publish(1)
        assert subscriber.receive().data == 1


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can give a directory to somebody else")
def test_a_domain_of_another_user_is_refused(domain: str) -> None:
    os.mkdir(domain, 0o700)
    os.chown(domain, 12345, -1)
    with pytest.raises(tb.AccessDenied, match=r"belongs to uid 12345.*set TENSORBUS_DOMAIN"):
        tb.Subscriber("topic")


def test_a_domain_that_is_a_file_is_refused(domain: str) -> None:
    Path(domain).touch()
    with pytest.raises(tb.SystemCallError, match=f"{domain}.*[Nn]ot a directory"):
        tb.participant()


def test_a_path_that_is_not_utf8_is_a_domain_like_any_other(
    elsewhere: Elsewhere, tmp_path: Path
) -> None:
    def look(domain: str) -> None:
        with tb.Subscriber("topic", domain=domain, timeout=PATIENCE) as subscriber:
            tell(subscriber.receive().data)
        here = tb.participant()
        tell((here is tb.participant(domain), here.domain, repr(here).isprintable()))
        tell([tb.inspect(domain).domain.isprintable(), tb.list_topics(domain) != []])

    path = os.path.join(tmp_path, os.fsdecode(b"bus\xff"))
    with tb.Publisher("topic", history=1, domain=path) as publisher:
        publisher.publish(7)
        process = elsewhere.start(look, path, env={"TENSORBUS_DOMAIN": path})
        assert process.hear() == 7
        assert process.hear() == (True, path, True)
        assert process.hear() == [True, True]
        process.finish()
    os.chmod(path, 0o777)
    with pytest.raises(tb.AccessDenied, match=r"bus\\xff"):
        tb.Subscriber("topic", domain=os.path.join(path, os.fsdecode(b"below\xff")))


@pytest.mark.parametrize("name", [".", ".."])
def test_a_name_that_leads_elsewhere_is_refused(name: str) -> None:
    with pytest.raises(tb.InvalidArgument, match="expected a name or a path"):
        tb.Publisher("topic", domain=name)


def test_a_name_is_a_folder_where_domains_are_and_goes_with_its_last_process(
    elsewhere: Elsewhere,
) -> None:
    def look(name: str) -> None:
        tell(tb.participant(name).domain)

    name = f"test-{os.getpid()}"  # in the user's own directory: test_one_bus.py makes others
    process = elsewhere.start(look, name)
    place = Path(process.hear())
    process.finish()
    bases = (f"/run/user/{os.geteuid()}/tensorbus", f"/tmp/tensorbus-{os.geteuid()}")
    assert place.name == name
    assert str(place.parent) in bases
    assert not place.exists()
    assert place.parent.exists()


def test_a_relative_path_is_the_same_domain_wherever_the_process_goes(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    assert tb.participant("./bus").domain == f"{tmp_path}/./bus"
    assert (tmp_path / "bus").is_dir()


def test_a_domain_below_what_others_may_write_to_is_refused(domain: str) -> None:
    os.mkdir(domain)
    os.chmod(domain, 0o777)
    with pytest.raises(tb.AccessDenied, match=rf"{domain}, on the way to it.*chmod go-w"):
        tb.Publisher("topic", domain=domain + "/own")
    assert os.listdir(domain) == []


def test_files_that_somebody_removes_come_back(elsewhere: Elsewhere, domain: str) -> None:
    def receive() -> None:
        tell(tb.Subscriber("topic", timeout=PATIENCE).receive().data)

    with joined() as (publisher, subscriber):
        files = sorted(os.listdir(domain))
        shutil.rmtree(domain, ignore_errors=True)
        eventually(lambda: os.path.isdir(domain) and sorted(os.listdir(domain)) == files)
        other = elsewhere.start(receive)
        assert publisher.wait_for_subscribers(2, timeout=PATIENCE)
        publisher.publish(7)
        assert (other.hear(), subscriber.receive().data) == (7, 7)
        assert subscriber.try_receive() is None


def test_a_path_longer_than_a_socket_address_works(elsewhere: Elsewhere, tmp_path: Path) -> None:
    def publish(domain: str) -> None:
        with tb.Publisher("topic", domain=domain) as publisher:
            assert publisher.wait_for_subscribers(timeout=PATIENCE)
            publisher.publish(7)

    domain = str(tmp_path / ("long" * 40) / ("longer" * 20))
    assert len(domain) > 108
    with tb.Subscriber("topic", domain=domain, timeout=PATIENCE) as subscriber:
        elsewhere.start(publish, domain)
        assert subscriber.receive().data == 7


def test_a_process_has_one_participant_for_a_domain(domain: str) -> None:
    assert tb.participant() is tb.participant()
    assert tb.participant() is tb.participant(domain)
    assert tb.participant(domain + "2").id != tb.participant().id


def test_an_orderly_end_leaves_nothing_behind(elsewhere: Elsewhere, domain: str) -> None:
    def live() -> None:
        with joined() as (publisher, subscriber):
            publisher.publish(1)
            subscriber.receive()

    elsewhere.run(live)
    assert os.listdir(domain) == []


def test_the_files_of_the_killed_are_removed_by_the_living(
    elsewhere: Elsewhere, domain: str
) -> None:
    def live() -> None:
        publishers = [tb.Publisher(f"topic/{number}") for number in range(3)]
        tell([publisher.topic for publisher in publishers])
        publishers[0].wait_for_subscribers(timeout=PATIENCE)

    other = elsewhere.start(live)
    assert len(other.hear()) == 3
    assert len(os.listdir(domain)) == 4
    other.kill()
    own = tb.participant().id
    eventually(lambda: os.listdir(domain) == [f"{own}.sock"])


def test_processes_that_start_together_all_take_part(elsewhere: Elsewhere) -> None:
    def be_born_again_and_again() -> None:
        from tensorbus._core import Participant

        for _ in range(200):
            participant = Participant.shared()
            assert f"{participant.id}.sock" in os.listdir(participant.domain)
            del participant

    for process in [elsewhere.start(be_born_again_and_again) for _ in range(3)]:
        process.finish()
