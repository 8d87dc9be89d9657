"""The nameserver's registry, with a clock of the test's own."""

import pytest

from neuro_cli.broker.registry import Entry, Ids, Registry, TakenError, UnknownError
from neuro_cli.core.errors import UserError


class Clock:
    now = 0.0

    def __call__(self) -> float:
        return self.now


@pytest.fixture
def clock() -> Clock:
    return Clock()


def beat(broker_id: int, waiting: int = 0, token: str = "t") -> Entry:
    return Entry(broker_id, f"127.0.0.1:{7000 + broker_id}", token, 0.0, waiting)


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


def test_a_new_nameserver_learns_its_brokers_from_heartbeats(tmp_path, clock):
    first = Ids(tmp_path)
    Registry(first, 5.0, clock).register("127.0.0.1:7001", 0, "t")
    first._lock.close()
    registry = Registry(Ids(tmp_path), 5.0, clock)
    registry.heartbeat(beat(1))
    assert [entry.broker_id for entry in registry.living()] == [1]
    with pytest.raises(UnknownError):
        registry.heartbeat(beat(2))  # an id that was never given
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
