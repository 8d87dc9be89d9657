"""Fetching of missing iterations: records, everything where histories differ, a snapshot where records were dropped."""

import asyncio
import hashlib

import numpy as np
import pytest
import torch
from safetensors.torch import save
from test_ledger import START, history

from neuro_cli.evolve.ledger.ledger import Ledger, Offered, origin
from neuro_cli.evolve.ledger.record import LedgerRecord, encoded
from neuro_cli.evolve.network.messages import Limits, MalformedError
from neuro_cli.evolve.peer_ledger import Snapshot
from neuro_cli.evolve.state_transfer import _chunk, fetch, serve
from neuro_cli.selection.base import Step


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


TENSORS = {"centre": ((5,), "torch.float32"), "task.count": ((1,), "torch.float32")}
LIMITS = Limits(4, 2, START, TENSORS, 24, lambda peer, iteration: 0)


class Keeper:
    limits = LIMITS

    def __init__(self, ledger: Ledger) -> None:
        self.ledger, self.snapshots = ledger, []

    def take(self, content: bytes) -> Offered:
        return self.ledger.offer(content, self.limits.columns)[0]

    def replace(self, ledger: Ledger, records: list[LedgerRecord], snapshot: Snapshot | None) -> None:
        assert [encoded(record) for record in records] == ledger.records
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


class Said:
    """A channel on which the other side says what it likes."""

    def __init__(self, *messages: dict) -> None:
        self._messages = list(messages)

    async def receive(self) -> dict:
        if not self._messages:
            raise ConnectionError("the connection has ended")
        return self._messages.pop(0)


def told(mine: Ledger, *messages: dict) -> Keeper:
    keeper = Keeper(mine)
    asyncio.run(fetch(Said(*messages), keeper))
    return keeper


def snapshot_messages(tensors: dict[str, torch.Tensor], **changes) -> list[dict]:
    content = save(tensors)
    digest = hashlib.sha256(content).hexdigest()
    announced = {"k": "snapshot", "next": 7, "head": b"h" * 32, "size": len(content), "sha256": digest} | changes
    return [announced, {"k": "part", "data": content}, {"k": "records", "records": []}]


GOOD = {"centre": torch.arange(5.0), "task.count": torch.ones(1)}


class TestWhatAnotherPeerSays:
    def test_a_snapshot_of_this_model_is_taken(self):
        keeper = told(ledger_of([]), *snapshot_messages(GOOD))
        assert (keeper.ledger.base, len(keeper.snapshots)) == (7, 1)

    @pytest.mark.parametrize(
        ("messages", "why"),
        [
            (snapshot_messages(GOOD, size=2**40), "a snapshot of 1099511627776 bytes, at most"),
            (snapshot_messages(GOOD, sha256="0" * 64), "damaged"),
            (snapshot_messages(GOOD, next=-1), "next=-1"),
            (snapshot_messages(GOOD | {"centre": torch.zeros(6)}), "another model"),
            (snapshot_messages(GOOD | {"centre": torch.zeros(5, dtype=torch.float64)}), "another model"),
            (snapshot_messages({"centre": torch.zeros(5)}), "another model"),
            (snapshot_messages(GOOD | {"centre": torch.full((5,), float("nan"))}), "not finite"),
            ([{"k": "start", "head": b"x" * 32}], "another run"),
            ([{"k": "records", "records": [b"junk"]}], "does not follow"),
            ([{"k": "records", "records": history(1), "more": 1}], "fields"),
            ([{"k": "records", "records": history(2)[1:]}], "does not follow"),
            ([{"k": "part", "data": b"x"}], "part where records or start"),
            ([{"k": "start", "head": START}, {"k": "start", "head": START}], "less than we have"),
        ],
    )
    def test_anything_else_ends_the_connection_and_changes_nothing(self, messages, why):
        keeper = Keeper(ledger_of(history(3)[:0]))
        with pytest.raises(ConnectionError, match=why):
            asyncio.run(fetch(Said(*messages), keeper))
        assert keeper.ledger.next == 0
        assert all(snapshot is None for snapshot in keeper.snapshots)

    def test_records_of_another_task_are_refused(self):
        narrow = LedgerRecord(0, 1, 1, 4, 0.5, 0, START[:8], (Step(0, 0, np.ones(1, np.float32)),), np.ones(3, np.float32))
        with pytest.raises(ConnectionError, match="does not follow"):
            told(ledger_of([]), {"k": "records", "records": [encoded(narrow)]})

    def test_one_who_sends_what_we_have_does_not_keep_us(self):
        with pytest.raises(ConnectionError, match="sends what we have"):
            told(ledger_of(history(3)), {"k": "records", "records": history(3)})
        with pytest.raises(MalformedError):
            told(ledger_of([]), {"k": "records", "records": []} | {"k": "nothing"})


def test_long_records_go_in_messages_that_a_peer_takes():
    big = LedgerRecord(0, 1, 1, 4, 0.5, 0, START[:8], (Step(0, 0, np.ones(2**17, np.float32)),), np.ones(2, np.float32))
    assert [len(chunk) for chunk in (_chunk([encoded(big)] * 9), _chunk([]), _chunk([b"x" * (2**20 + 1)] * 3))] == [1, 0, 1]
    assert len(_chunk([b"x" * 1000] * 500)) == 500
