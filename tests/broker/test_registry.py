"""The nameserver's registry, with a clock of the test's own."""

from pathlib import Path

import pytest

from neuro_cli.broker.nameserver import client
from neuro_cli.broker.nameserver.registry import LARGEST_ID, BrokerEntry, Ids, Registry, TakenError, UnknownError
from neuro_cli.broker.proto import nameserver_pb2 as messages
from neuro_cli.broker.settings import Security
from neuro_cli.core.errors import UserError


class Clock:
    now = 0.0

    def __call__(self) -> float:
        return self.now


@pytest.fixture
def clock() -> Clock:
    return Clock()


def beat(broker_id: int, waiting: int = 0, token: str = "t") -> BrokerEntry:
    return BrokerEntry(broker_id, f"127.0.0.1:{7000 + broker_id}", token, 0.0, waiting)


def test_ids_never_repeat_whatever_crashes(tmp_path):
    ids = Ids(tmp_path)
    given = [ids.take(), ids.take()]
    ids._lock.close()  # as the end of the process does it
    again = Ids(tmp_path)
    given += [again.take(), again.take()]
    assert given == [1, 2, 3, 4]


def test_two_nameservers_do_not_share_a_folder(tmp_path):
    ids = Ids(tmp_path)
    with pytest.raises(UserError, match="another process works on this folder"):
        Ids(tmp_path)
    assert ids.take() == 1


def test_a_damaged_file_of_ids_is_refused(tmp_path):
    (tmp_path / "next_broker_id").write_text("seven")
    with pytest.raises(UserError, match="is no id"):
        Ids(tmp_path)


@pytest.mark.parametrize("text", ["0", "-1", "1_000", "1 2", "", "9" * 19, str(2**62), "9" * 5000, "\u0663"])
def test_an_id_out_of_range_in_the_file_is_refused_by_its_name(tmp_path, text):
    (tmp_path / "next_broker_id").write_text(text)
    with pytest.raises(UserError, match="is no id; it must be larger than that of any broker so far") as refused:
        Ids(tmp_path)
    assert len(str(refused.value)) < 400


def test_no_call_leaves_others_without_ids(tmp_path, clock):
    registry = Registry(Ids(tmp_path), 5.0, clock)
    given = [
        registry.register(f"127.0.0.1:{port}", asked, str(port)) for port, asked in enumerate((2**62, 2**62 - 1, 2**40, 0), 1)
    ]
    assert given == [1, 2, 3, 4]
    assert int((tmp_path / "next_broker_id").read_text()) == 5
    assert registry.register("127.0.0.1:9", 9000, "nine") == 9000  # as of a nameserver whose file was put back


def test_ids_end_in_words_and_not_in_an_id_out_of_range(tmp_path, clock):
    ids = Ids(tmp_path)
    ids.skip_to(LARGEST_ID)
    with pytest.raises(TakenError, match="all ids"):
        Registry(ids, 5.0, clock).register("127.0.0.1:1", 0, "t")


BAD = [
    "",
    "nowhere",
    "127.0.0.1:0",
    "127.0.0.1:70000",
    "a b:1",
    "x" * 300 + ":1",
    "[127.0.0.1]:1",
    "host:\u0661",
    "dns:///x:1",
    "unix:/x:1",
]


@pytest.mark.parametrize("address", BAD)
@pytest.mark.parametrize("security", [Security(), Security(Path("folder"))])
def test_an_entry_with_an_address_that_is_none_is_left_out(address, security, caplog):
    client._skipped.clear()
    good = messages.BrokerInfo(broker_id=7, address="127.0.0.1:7701")
    for _ in range(3):
        assert client.usable([messages.BrokerInfo(broker_id=1, address=address), good], security) == [good]
    assert len(caplog.records) == 1  # told once


@pytest.mark.parametrize("number", [0, 2**63])
def test_an_entry_with_an_id_that_is_none_is_left_out(number):
    assert client.usable([messages.BrokerInfo(broker_id=number, address="127.0.0.1:1")], Security()) == []


def test_other_machines_are_left_out_without_certificates_for_them():
    there = [messages.BrokerInfo(broker_id=1, address="10.1.1.1:80")]
    assert client.usable(there, Security()) == []
    assert client.usable(there, Security(Path("own"), local=True)) == []
    assert client.usable(there, Security(Path("certificates"))) == there


def test_a_silent_broker_is_dropped_and_told_to_register_again(tmp_path, clock):
    registry = Registry(Ids(tmp_path), 5.0, clock)
    number = registry.register("127.0.0.1:7001", 0, "t")
    clock.now = 30.0
    assert registry.living() == []
    with pytest.raises(UnknownError):
        registry.heartbeat(beat(number))
    assert registry.register("127.0.0.1:7001", number, "t") == number  # it keeps its id
    registry.heartbeat(beat(number))
    assert [entry.broker_id for entry in registry.living()] == [number]


def test_a_nameserver_that_was_started_again_tells_every_broker_to_register(tmp_path, clock):
    first = Ids(tmp_path)
    Registry(first, 5.0, clock).register("127.0.0.1:7001", 0, "t")
    first._lock.close()
    registry = Registry(Ids(tmp_path), 5.0, clock)
    for number in (1, 2):  # one that was given, and one that was not
        with pytest.raises(UnknownError):
            registry.heartbeat(beat(number))
    assert registry.living() == []
    assert registry.register("127.0.0.1:7001", 1, "t") == 1  # it keeps its id
    registry.heartbeat(beat(1))
    assert [entry.broker_id for entry in registry.living()] == [1]
    assert registry.register("127.0.0.1:7002", 0, "u") == 2


def test_a_nameserver_that_lost_its_folder_does_not_give_an_id_twice(tmp_path, clock):
    registry = Registry(Ids(tmp_path), 5.0, clock)
    assert registry.register("127.0.0.1:7001", 7, "t") == 7
    assert registry.register("127.0.0.1:7002", 0, "u") == 8


def test_the_copy_of_a_broker_is_refused_while_the_broker_lives(tmp_path, clock):
    registry = Registry(Ids(tmp_path), 5.0, clock)
    number = registry.register("127.0.0.1:7001", 0, "t")
    with pytest.raises(TakenError):
        registry.register("127.0.0.1:7002", number, "other")
    with pytest.raises(UnknownError):
        registry.heartbeat(beat(number, token="other"))


def test_a_peer_is_another_broker_and_one_with_work_if_there_is_one(tmp_path, clock):
    registry = Registry(Ids(tmp_path), 5.0, clock)
    for port in range(4):
        registry.register(f"127.0.0.1:{7001 + port}", 0, "t")
    assert {registry.peer(1).broker_id for _ in range(200)} == {2, 3, 4}
    registry.heartbeat(beat(3, waiting=9))
    assert {registry.peer(1).broker_id for _ in range(20)} == {3}
    assert registry.peer(3).broker_id != 3


def test_alone_there_is_no_peer(tmp_path, clock):
    registry = Registry(Ids(tmp_path), 5.0, clock)
    number = registry.register("127.0.0.1:7001", 0, "t")
    with pytest.raises(UnknownError):
        registry.peer(number)
