"""Files that ranks leave of their last iterations: the newest complete one that all members have."""

from pathlib import Path

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from neuro_cli.algo.base import State
from neuro_cli.core.errors import UserError
from neuro_cli.run_folder.checkpoint import shard_bytes, shard_state
from neuro_cli.run_folder.last_step import LastStep, content_of, in_common, remove


def content(number: int, generation: int) -> bytes:
    return shard_bytes(State({"x": torch.full((5,), float(100 * number + generation))}, {"generation": generation}))


@settings(max_examples=30, deadline=None)
@given(slots=st.integers(2, 5), done=st.lists(st.integers(1, 30), min_size=1, max_size=4))
def test_the_in_common_iteration(tmp_path_factory, slots, done):
    """Ranks that are up to slots - 1 iterations apart have one in common; it is the slowest's last."""
    run = tmp_path_factory.mktemp("run")
    done = [min(last, min(done) + slots - 1) for last in done]
    store = LastStep(run, slots)
    store.clear()
    for number, last in enumerate(done):
        for generation in range(1, last + 1):
            store.write(generation, generation / 2, {number: content(number, generation)})
    assert max(in_common(run, len(done)).items()) == (min(done), min(done) / 2)
    for number in range(len(done)):
        state = shard_state(content_of(run, number, min(done)))
        assert state.scalars == {"generation": min(done)}
        assert state.tensors["x"].tolist() == [100 * number + min(done)] * 5


@pytest.mark.parametrize("cut", [0, 7, 39, 40, 41, 90])
def test_a_write_that_was_cut_short_does_not_count(tmp_path, cut):
    """A rank killed while it writes iteration 3: whatever is written of it, iteration 2 is the last complete one."""
    store = LastStep(tmp_path, 2)
    store.clear()
    for generation in (1, 2):
        for number in (0, 1):
            store.write(generation, 1.0, {number: content(number, generation)})
    store.write(3, 1.0, {0: content(0, 3)})
    path = tmp_path / "checkpoints" / "last_step" / "member-1.1"
    whole = path.read_bytes()
    path.write_bytes(b"\0" * 40 + whole[40 : 40 + cut])  # the head is cleared first
    assert max(in_common(tmp_path, 2).items()) == (2, 1.0)


def test_pages_that_never_reached_the_disk_are_found(tmp_path, caplog):
    store = LastStep(tmp_path, 2)
    store.clear()
    for generation in (1, 2):
        store.write(generation, 0.0, {0: content(0, generation)})
    path = tmp_path / "checkpoints" / "last_step" / "member-0.0"
    whole = bytearray(path.read_bytes())
    whole[-8:] = b"\0" * 8
    path.write_bytes(whole)
    assert in_common(tmp_path, 1) == {1: 0.0}
    assert "member-0.0 is damaged" in caplog.text


def test_a_member_without_slots(tmp_path):
    store = LastStep(tmp_path, 2)
    store.clear()
    store.write(1, 0.0, {0: content(0, 1)})
    assert in_common(tmp_path, 2) == {}
    remove(tmp_path)
    assert in_common(tmp_path, 1) == {}
    assert not (tmp_path / "checkpoints" / "last_step").exists()


def test_a_shorter_content_replaces_a_longer_one(tmp_path):
    store = LastStep(tmp_path, 2)
    store.clear()
    long = shard_bytes(State({"x": torch.zeros(1000)}, {}))
    store.write(2, 0.0, {0: long})
    store.write(4, 0.0, {0: content(0, 4)})
    assert content_of(Path(tmp_path), 0, 4) == content(0, 4)


def test_a_full_disk_is_one_line(tmp_path):
    store = LastStep(tmp_path, 2)
    store.clear()
    (tmp_path / "checkpoints" / "last_step" / "member-0.1").symlink_to("/dev/full")
    with pytest.raises(UserError, match=r"member-0\.1: cannot be written: No space left on device \(algo\.keep_last_step=false"):
        store.write(1, 0.0, {0: content(0, 1)})
