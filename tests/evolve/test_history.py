"""What a peer lacks it gets from another: records, everything where histories differ, a snapshot where records were dropped."""

import asyncio

import pytest
import torch
from test_ledger import START, history

from neuro_cli.evolve.history import Snapshot, fetch, serve
from neuro_cli.evolve.ledger import Ledger, origin


class Pipe:
    """A channel in memory, both ends."""

    def __init__(self) -> None:
        self._messages: asyncio.Queue[dict] = asyncio.Queue()

    def send(self, message: dict) -> None:
        self._messages.put_nowait(message)

    async def drain(self) -> None:
        await asyncio.sleep(0)

    async def receive(self) -> dict:
        return await self._messages.get()


class Keeper:
    def __init__(self, ledger: Ledger) -> None:
        self.ledger, self.snapshots = ledger, []

    def commit(self, content: bytes) -> None:
        self.ledger.offer(content)

    def replace(self, ledger: Ledger, snapshot: Snapshot | None) -> None:
        self.ledger = ledger
        self.snapshots.append(snapshot)


def ledger_of(records: list[bytes], start: bytes = START) -> Ledger:
    ledger = Ledger(start)
    for content in records:
        ledger.offer(content)
    return ledger


def passed(mine: Ledger, theirs: Ledger, snapshot: Snapshot | None = None) -> Keeper:
    """A keeper of ``mine`` after it has fetched what ``theirs`` has."""
    keeper = Keeper(mine)

    async def both() -> None:
        pipe = Pipe()
        await serve(pipe, theirs, mine.next, mine.head, START, lambda: snapshot)
        await asyncio.wait_for(fetch(pipe, keeper), 5.0)

    asyncio.run(both())
    return keeper


@pytest.mark.parametrize("have", [0, 3, 1200])
def test_the_records_that_are_missing(have):
    records = history(1200)
    keeper = passed(ledger_of(records[:have]), ledger_of(records))
    assert (keeper.ledger.next, keeper.ledger.records, keeper.snapshots) == (1200, records, [])


def test_everything_where_histories_differ():
    other = ledger_of(history(3, origin(b"another")), origin(b"another"))
    keeper = passed(other, ledger_of(history(5)))
    assert keeper.ledger.head == ledger_of(history(5)).head
    assert keeper.snapshots == [None]


def test_a_snapshot_and_the_records_after_it():
    whole = ledger_of(history(20))
    head = whole.head_at(12)
    theirs = ledger_of(whole.records)
    theirs.compact(10)
    keeper = passed(
        ledger_of(whole.records[:4]), theirs, Snapshot(12, head, {"centre": torch.arange(5.0), "task.count": torch.ones(1)})
    )
    assert (keeper.ledger.base, keeper.ledger.next, keeper.ledger.head) == (12, 20, whole.head)
    (snapshot,) = keeper.snapshots
    assert (snapshot.iteration, snapshot.head) == (12, head)
    assert sorted(snapshot.tensors) == ["centre", "task.count"]
    assert torch.equal(snapshot.tensors["centre"], torch.arange(5.0))


def test_nothing_is_given_up_for_a_shorter_history_or_a_missing_snapshot():
    records = history(8)
    with pytest.raises(ConnectionError, match="less than we have"):
        passed(ledger_of(records), ledger_of(records[:5]))
    theirs = ledger_of(records)
    theirs.compact(4)
    with pytest.raises(ConnectionError, match="no snapshot"):
        passed(ledger_of([]), theirs)
