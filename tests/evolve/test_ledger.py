"""The committed sequence is the same on every peer, whatever comes late, twice or out of order; its file survives a torn end."""

import errno
import os
import resource

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from node_lab import LIMITS

from neuro_cli.core.errors import UserError
from neuro_cli.evolve.ledger.file import HEADER, NAME, LedgerFile, ledger_in, read_ledger
from neuro_cli.evolve.ledger.ledger import Ledger, Offered, origin
from neuro_cli.evolve.ledger.record import MEMBERS, InvalidRecordError, LedgerRecord, decoded, encoded
from neuro_cli.evolve.peer_ledger import PeerLedger
from neuro_cli.selection.base import Step

START = origin(b"a run")


def record(iteration: int, parent: bytes, first: int = 0, value: float = 0.5) -> bytes:
    step = Step(iteration, first, np.array([value], np.float32))
    return encoded(LedgerRecord(iteration, 1, 3, 6, 0.5, 0, parent[:8], (step,), np.array([0.25, 1.5], np.float32)))


def history(length: int, start: bytes = START) -> list[bytes]:
    """A chain of records."""
    ledger = Ledger(start)
    for iteration in range(length):
        assert ledger.offer(record(iteration, ledger.head, iteration))[0] is Offered.APPLIED
    return ledger.records


class TestLedger:
    @settings(max_examples=200, deadline=None)
    @given(st.integers(1, 12), st.data())
    def test_any_order_with_duplicates_gives_a_prefix_and_in_order_gives_all(self, length, data):
        records = history(length)
        mixed = data.draw(st.lists(st.sampled_from(records), max_size=40))
        ledger, expected = Ledger(START), 0
        for content in mixed:
            number = decoded(content).iteration
            outcome = ledger.offer(content)[0]
            if number == expected:
                assert outcome is Offered.APPLIED
                expected += 1
            else:
                assert outcome is (Offered.DUPLICATE if number < expected else Offered.GAP)
            assert ledger.records == records[:expected]
        for content in records:
            ledger.offer(content)
        whole = Ledger(START)
        for content in records:
            whole.offer(content)
        assert (ledger.head, ledger.next) == (whole.head, length)

    @given(st.lists(st.binary(max_size=40), max_size=5), st.integers(0, 4))
    def test_foreign_bytes_change_nothing(self, junk, length):
        ledger = Ledger(START)
        for content in history(length):
            ledger.offer(content)
        head = ledger.head
        assert all(ledger.offer(content) == (Offered.INVALID, None) for content in junk)
        assert (ledger.head, ledger.next) == (head, length)

    def test_another_history_is_told_apart(self):
        ledger = Ledger(START)
        ledger.offer(record(0, START, first=1))
        other = history(2)[1]
        assert ledger.offer(other)[0] is Offered.FORK
        assert Ledger(origin(b"another run")).offer(history(1)[0])[0] is Offered.FORK

    @given(st.integers(0, 10), st.integers(0, 12))
    def test_what_is_compacted_goes_on_as_before(self, length, cut):
        records, whole = history(length + 3), Ledger(START)
        ledger = Ledger(START)
        for content in records[:length]:
            ledger.offer(content)
        ledger.compact(cut)
        for content in records[length:]:
            assert ledger.offer(content)[0] is Offered.APPLIED
        for content in records:
            whole.offer(content)
        assert (ledger.head, ledger.next) == (whole.head, whole.next)
        assert ledger.since(ledger.base) == records[ledger.base :]
        assert ledger.head_at(ledger.base) == whole.head_at(ledger.base)
        if ledger.base:
            with pytest.raises(LookupError):
                ledger.since(ledger.base - 1)


class TestRecord:
    @given(
        st.integers(0, 2**32 - 1),
        st.integers(0, 2**40),
        st.floats(allow_nan=False),
        st.lists(st.floats(width=32, allow_nan=False, allow_infinity=False), min_size=1, max_size=5),
        st.integers(0, MEMBERS - 6),
        st.lists(st.floats(width=32, allow_nan=False, allow_infinity=False), min_size=1, max_size=3),
    )
    def test_comes_back_as_it_was(self, iteration, term, best, coefficients, first, means):
        step = Step(iteration, first, np.array(coefficients, np.float32))
        content = encoded(LedgerRecord(iteration, term, 2, 4, best, 1, START[:8], (step,), np.array(means, np.float32)))
        found = decoded(content)
        assert encoded(found) == content
        assert (found.iteration, found.term, found.best, found.late, found.parent) == (iteration, term, best, 1, START[:8])
        assert found.steps[0].coefficients.tolist() == step.coefficients.tolist()
        assert found.means.tolist() == means

    @pytest.mark.parametrize(
        ("iteration", "first", "value"),
        [(2**32, 0, 1.0), (0, MEMBERS, 1.0), (0, 0, float("nan")), (0, 0, float("inf")), (-1, 0, 1.0)],
    )
    def test_values_out_of_range_are_refused(self, iteration, first, value):
        with pytest.raises(InvalidRecordError):
            decoded(record(iteration, START, first, value))

    def test_a_record_of_the_best_seed_takes_few_bytes(self):
        assert len(record(10**6, START, first=2**32)) < 100


class TestFile:
    def written(self, folder, length: int, marked: int) -> Ledger:
        """A file of ``length`` iterations, of which the header knows ``marked``: as a kill leaves it."""
        ledger = Ledger(START)
        file = LedgerFile(folder, ledger)
        for number, content in enumerate(history(length)):
            if number == marked:
                file.marker()()
            ledger.offer(content)
            file.append(content)
        return ledger

    def test_what_a_kill_tears_is_left_out_and_written_again(self, tmp_path, caplog):
        ledger = self.written(tmp_path, 4, 2)
        assert read_ledger(tmp_path).head == ledger.head
        path = tmp_path / NAME
        whole = path.read_bytes()
        for cut in (1, 5, len(ledger.records[-1])):
            path.write_bytes(whole[:-cut])
            caplog.clear()
            assert read_ledger(tmp_path).records == ledger.records[:3]
            (line,) = caplog.messages
            assert "torn off by a kill: 3 iterations are complete" in line
        torn = read_ledger(tmp_path)
        LedgerFile(tmp_path, torn).append(ledger.records[3])
        assert read_ledger(tmp_path).head == ledger.head

    def test_a_full_disk_leaves_complete_records_and_no_gap(self, tmp_path):
        records = history(3)
        file = LedgerFile(tmp_path, Ledger(START))
        file.append(records[0])
        path = tmp_path / NAME
        before, limits = path.read_bytes(), resource.getrlimit(resource.RLIMIT_FSIZE)
        resource.setrlimit(resource.RLIMIT_FSIZE, (len(before) + 5, limits[1]))  # a part of the next record fits
        try:
            with pytest.raises(OSError, match="No space left"):
                file.append(records[1])
        finally:
            resource.setrlimit(resource.RLIMIT_FSIZE, limits)
        assert path.read_bytes() == before
        with pytest.raises(OSError, match="No space left"):  # the disk has room again, and the file lacks a record
            file.append(records[2])
        file.close()
        assert read_ledger(tmp_path).records == records[:1]

    @pytest.mark.parametrize("way", ["compact", "replace"])
    def test_a_file_that_cannot_be_replaced_ends_the_peer_and_stays_open(self, way, tmp_path, monkeypatch):
        ledger, failures = Ledger(START), list[Exception]()
        for content in history(3):
            ledger.offer(content)

        def nothing(*given):
            pass

        peer = PeerLedger(tmp_path, ledger.until(2), LIMITS, nothing, nothing, failures.append, nothing)
        peer.open()
        with monkeypatch.context() as patch:
            patch.setattr(os, "replace", lambda *names: (_ for _ in ()).throw(OSError(errno.ENOSPC, "No space left")))
            peer.compact(1) if way == "compact" else peer.replace(ledger.until(1), [], None)
        assert [str(each) for each in failures] == [f"{tmp_path}: the ledger cannot be written: No space left"]
        with open(tmp_path / "another", "wb") as another:  # it takes the number of a closed descriptor
            peer.close()
            assert another.tell() == 0
        assert read_ledger(tmp_path).records == ledger.records[:2]
        assert sorted(each.name for each in tmp_path.iterdir()) == ["another", NAME]

    def test_every_truncation_is_a_torn_end_or_refused_with_how_much_is_missing(self, tmp_path, caplog):
        ledger = self.written(tmp_path, 6, 3)
        path = tmp_path / NAME
        whole = path.read_bytes()
        frames = len(whole) - sum(map(len, ledger.records)) - HEADER
        starts = [HEADER + sum(len(one) + frames // 6 for one in ledger.records[:count]) for count in range(7)]
        for size in range(len(whole)):
            path.write_bytes(whole[:size])
            caplog.clear()
            count = sum(start <= size for start in starts) - 1
            if size < HEADER:
                with pytest.raises(UserError, match="not a ledger"):
                    read_ledger(tmp_path)
            elif count < 3:
                with pytest.raises(UserError, match=f"it had 3 iterations on disk, the last {3 - count} of them are missing"):
                    read_ledger(tmp_path)
            else:
                assert read_ledger(tmp_path).records == ledger.records[:count]
                assert len(caplog.messages) == (size not in starts)

    @pytest.mark.parametrize("marked", [2, 4])
    def test_no_flipped_bit_gives_another_history(self, tmp_path, marked):
        ledger = self.written(tmp_path, 4, marked)
        path = tmp_path / NAME
        whole, refused = path.read_bytes(), 0
        torn = whole + whole[-40:-10]  # and what a kill left of a fifth
        for content in (whole, torn):
            for bit in range(8 * len(content)):
                flipped = bytearray(content)
                flipped[bit // 8] ^= 1 << bit % 8
                try:
                    found = ledger_in(bytes(flipped), path)
                except UserError:
                    refused += 1
                    continue
                assert (found.base, found.head, found.records) == (0, ledger.head, ledger.records)
        assert refused >= 8 * 2 * len(whole)

    def test_a_closed_file_knows_all_that_it_has(self, tmp_path):
        ledger = Ledger(START)
        for content in history(3):
            ledger.offer(content)
        LedgerFile(tmp_path, ledger).close()
        path = tmp_path / NAME
        content = path.read_bytes()
        path.write_bytes(content[: -len(ledger.records[2]) - 12])
        with pytest.raises(UserError, match="3 iterations on disk, the last 1 of them are missing"):
            read_ledger(tmp_path)
        path.write_bytes(b"something else\n")
        with pytest.raises(UserError, match="not a ledger"):
            read_ledger(tmp_path)
        with pytest.raises(UserError, match="no peer's run folder"):
            read_ledger(tmp_path / "nothing")
