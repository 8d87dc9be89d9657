"""The nameserver's registry, with a clock of the test's own."""

from pathlib import Path

import pytest

from neuro_cli.broker.nameserver import client
from neuro_cli.broker.nameserver.registry import LARGEST_ID, Registry, TakenError, UnknownError
from neuro_cli.broker.proto import nameserver_pb2 as messages
from neuro_cli.broker.settings import Security


class Clock:
    now = 0.0

    def __call__(self) -> float:
        return self.now


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
def registry(clock) -> Registry:
    return Registry(5.0, clock)


def beat(broker_id: int, waiting: int = 0) -> messages.BrokerInfo:
    return messages.BrokerInfo(broker_id=broker_id, address="127.0.0.1:7001", waiting=waiting)


def test_brokers_get_ids_of_their_own_and_keep_them(registry):
    """Also from a nameserver that was started again, which knows none of them."""
    given = {registry.register(f"127.0.0.1:{port}", 0, str(port)) for port in range(1, 1001)}
    assert len(given) == 1000
    assert 0 < min(given) <= max(given) <= LARGEST_ID
    assert registry.register("127.0.0.1:9", 9000, "nine") == 9000


def test_an_entry_with_an_address_or_an_id_that_is_none_is_left_out(caplog):
    client._skipped.clear()
    good = messages.BrokerInfo(broker_id=7, address="127.0.0.1:7701")
    addresses = ["", "nowhere", "127.0.0.1:0", "127.0.0.1:70000", "a b:1", "x" * 300 + ":1", "[127.0.0.1]:1", "host:\u0661",
                 "dns:///x:1", "unix:/x:1"]  # fmt: skip
    bad = [messages.BrokerInfo(broker_id=1, address=address) for address in addresses]
    bad += [messages.BrokerInfo(broker_id=number, address="127.0.0.1:1") for number in (0, 2**63)]
    for security in (Security(), Security(Path("folder")), Security()):
        assert client.usable([*bad, good], security) == [good]
    assert len(caplog.records) == len(bad)  # each is reported once


def test_other_machines_are_left_out_without_certificates_for_them():
    there = [messages.BrokerInfo(broker_id=1, address="10.1.1.1:80")]
    assert client.usable(there, Security()) == []
    assert client.usable(there, Security(Path("own"), local=True)) == []
    assert client.usable(there, Security(Path("certificates"))) == there


def test_a_silent_broker_is_dropped_and_told_to_register_again(registry, clock):
    number = registry.register("127.0.0.1:7001", 0, "t")
    clock.now = 30.0
    assert registry.living() == []
    with pytest.raises(UnknownError):
        registry.heartbeat(beat(number), "t")
    assert registry.register("127.0.0.1:7001", number, "t") == number  # it keeps its id
    registry.heartbeat(beat(number, 3), "t")
    assert registry.living() == [beat(number, 3)]


def test_the_id_of_a_living_broker_is_no_other_broker_s(registry):
    number = registry.register("127.0.0.1:7001", 0, "t")
    with pytest.raises(TakenError):
        registry.register("127.0.0.1:7002", number, "other")
    with pytest.raises(UnknownError):
        registry.heartbeat(beat(number), "other")


def test_a_peer_is_another_broker_and_one_with_work_if_there_is_one(registry):
    with pytest.raises(UnknownError):
        registry.peer(1)
    for number in range(1, 5):
        registry.register(f"127.0.0.1:{7000 + number}", number, "t")
    assert {registry.peer(1).broker_id for _ in range(200)} == {2, 3, 4}
    registry.heartbeat(beat(3, waiting=9), "t")
    assert {registry.peer(1).broker_id for _ in range(20)} == {3}
    assert registry.peer(3).broker_id != 3
