"""A checkpoint comes back bit for bit, or is refused: after edits, kills and full disks."""

import hashlib
import json
import os
import random
import resource
import signal
import struct
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from support.forked import run_forked
from support.inside import well
from support.worlds import clean_environment
from torch import Tensor

from neuro_cli.core.errors import UserError
from neuro_cli.run_folder import checkpoint
from neuro_cli.run_folder.checkpoint import CheckpointStore, write_atomically

DTYPES = [torch.float32, torch.float64, torch.bfloat16, torch.int64, torch.uint8, torch.bool]
shapes = st.lists(st.integers(0, 4), max_size=4)


@st.composite
def any_tensor(draw: st.DrawFn) -> Tensor:
    """Random bits, so NaN payloads and infinities too, in any layout."""
    shape, dtype = draw(shapes), draw(st.sampled_from(DTYPES))
    count = int(np.prod(shape, dtype=np.int64)) * dtype.itemsize
    raw = draw(st.binary(min_size=count, max_size=count))
    if dtype is torch.bool:
        raw = bytes(byte & 1 for byte in raw)
    tensor = torch.frombuffer(bytearray(raw), dtype=dtype).reshape(shape) if raw else torch.empty(shape, dtype=dtype)
    if tensor.ndim == 4 and draw(st.booleans()):
        return tensor.to(memory_format=torch.channels_last)
    return tensor.permute(tuple(reversed(range(tensor.ndim)))) if draw(st.booleans()) else tensor


keys = st.text().filter(lambda key: key != "float64_bits")  # the mark of a float that JSON has not
scalars = st.dictionaries(
    keys,
    st.recursive(
        st.none() | st.booleans() | st.integers() | st.floats() | st.text(),
        lambda inner: st.lists(inner, max_size=3) | st.dictionaries(keys, inner, max_size=3),
        max_leaves=8,
    ),
    max_size=4,
)
names = st.text(min_size=1, max_size=8).filter(lambda name: name != "__metadata__")


def bits(value: object) -> object:
    """``value`` with tensors and floats replaced by their bits: NaN differs from itself."""
    if isinstance(value, Tensor):
        return value.dtype, tuple(value.shape), value.contiguous().flatten().view(torch.uint8).numpy().tobytes()
    if isinstance(value, float):
        return struct.pack("d", value)
    if isinstance(value, list):
        return [bits(item) for item in value]
    if isinstance(value, dict):
        return {key: bits(item) for key, item in value.items()}
    return value


@settings(max_examples=60, deadline=None)
@given(st.dictionaries(names, any_tensor(), max_size=3), scalars, st.integers(0, 10**9))
def test_round_trip(tmp_path_factory: pytest.TempPathFactory, tensors: dict, values: dict, generation: int) -> None:
    store = CheckpointStore(tmp_path_factory.mktemp("run"), 1)
    store.save(generation, tensors, values)
    back = store.load()
    assert back.generation == generation
    assert bits(back.tensors) == bits(tensors)
    assert bits(back.scalars) == bits(values)


def test_tensors_that_share_memory_and_ones_with_gradients(tmp_path: Path) -> None:
    flat = torch.arange(24.0, requires_grad=True)
    store = CheckpointStore(tmp_path, 1)
    store.save(0, {"flat": flat, "view": flat[4:12], "grid": flat.view(4, 6).T}, {})
    back = store.load().tensors
    assert torch.equal(back["view"], flat[4:12])
    assert torch.equal(back["grid"], flat.view(4, 6).T)
    back["view"].add_(1)
    assert torch.equal(back["flat"], flat)


@pytest.mark.parametrize("value", [(1, 2), {1: 2}, torch.zeros(1), {"float64_bits": "00"}, b"x"])
def test_scalars_that_json_does_not_give_back_are_refused(tmp_path: Path, value: object) -> None:
    with pytest.raises(TypeError, match="JSON cannot give it back"):
        CheckpointStore(tmp_path, 1).save(0, {}, {"key": value})


@pytest.mark.parametrize("keep", [1, 2, 5])
def test_keeps_the_last(tmp_path: Path, keep: int) -> None:
    store = CheckpointStore(tmp_path, keep)
    for generation in range(0, 40, 10):
        save(store, generation)
    last = [0, 10, 20, 30][-keep:]
    assert store.generations() == last
    files = sorted(path.name for path in store.folder.iterdir())
    assert files == [*(f"{generation:08d}.safetensors" for generation in last), "state.json"]
    assert [consistent(store, generation) for generation in last] == last


def test_going_back_drops_the_later_ones(tmp_path: Path) -> None:
    store = CheckpointStore(tmp_path, 5)
    for generation in (10, 20, 30, 15):
        save(store, generation)
    assert store.generations() == [10, 15]
    for _ in range(3):
        save(store, 15)
        assert consistent(store) == 15
        assert len(list(store.folder.iterdir())) == 3


def test_a_kill_between_the_two_files(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The only checkpoint is written again: the one in use must outlive the new tensors."""
    store = CheckpointStore(tmp_path, 1)
    save(store, 5)

    def killed(path: Path, content: bytes) -> None:
        if path.name == "state.json":
            raise KeyboardInterrupt
        write_atomically(path, content)

    monkeypatch.setattr(checkpoint, "write_atomically", killed)
    with pytest.raises(KeyboardInterrupt):
        store.save(5, {"other": torch.zeros(1)}, {})
    assert consistent(store) == 5


def test_nothing_there(tmp_path: Path) -> None:
    for run in (tmp_path, tmp_path / "nowhere"):
        store = CheckpointStore(run, 1)
        assert store.generations() == []
        with pytest.raises(UserError) as caught:
            store.load()
        assert str(caught.value) == f"{run}: not a neuro run with a checkpoint (no checkpoints/state.json)"


def test_unknown_generation_lists_those_there(tmp_path: Path) -> None:
    store = CheckpointStore(tmp_path, 3)
    save(store, 5)
    save(store, 6)
    with pytest.raises(UserError, match=r"no checkpoint for generation 7; available: 5, 6$"):
        store.load(7)


def truncate(path: Path) -> None:
    os.truncate(path, path.stat().st_size - 1)


def empty(path: Path) -> None:
    os.truncate(path, 0)


def flip(path: Path) -> None:
    content = bytearray(path.read_bytes())
    content[random.randrange(len(content))] ^= 1 << random.randrange(8)
    path.write_bytes(content)


def extend(path: Path) -> None:
    path.write_bytes(path.read_bytes() + b"\0")


DAMAGE = [truncate, empty, flip, extend, Path.unlink]


@pytest.mark.parametrize("damage", DAMAGE)
def test_damaged_tensors_are_refused_and_the_previous_offered(tmp_path: Path, damage) -> None:  # type: ignore[no-untyped-def]
    store = CheckpointStore(tmp_path, 3)
    for generation in (1, 2, 3):
        save(store, generation)
    for broken, offered in ((3, "neuro resume {run} checkpoint=2"), (2, "neuro resume {run} checkpoint=1")):
        path = store.folder / f"{broken:08d}.safetensors"
        damage(path)
        with pytest.raises(UserError) as caught:
            store.load()
        message = str(caught.value)
        assert message.startswith(str(store.folder / "00000003.safetensors"))
        assert message.endswith(offered.format(run=tmp_path))
        assert "\n" not in message
    assert consistent(store, 1) == 1
    damage(store.folder / "00000001.safetensors")
    with pytest.raises(UserError, match=r"no earlier checkpoint is intact$"):
        store.load()


EDITS = [("generation", 9), ("size", 1), ("scalars", {}), ("file", "../x.safetensors")]


def test_damaged_or_edited_state_is_refused(tmp_path: Path) -> None:
    store = CheckpointStore(tmp_path, 3)
    save(store, 1)
    path = store.folder / "state.json"
    truncate(path)  # the line end only: still the same content
    assert consistent(store) == 1
    state = path.read_text()
    edited = [json.loads(state) for _ in EDITS]
    for wrong, (key, value) in zip(edited, EDITS, strict=True):
        wrong["entries"][0][key] = value
    for content in (state[:-1], "", *map(json.dumps, edited)):
        path.write_text(content)
        for action in (store.load, store.generations, lambda: save(store, 2)):
            with pytest.raises(UserError, match=r"state.json: truncated or edited .*; restore it or start a new run"):
                action()


def test_state_of_another_format(tmp_path: Path) -> None:
    store = CheckpointStore(tmp_path, 1)
    save(store, 1)
    path = store.folder / "state.json"
    path.write_text(path.read_text().replace('"format": 1', '"format": 2'))
    with pytest.raises(UserError, match="format 2, this version of neuro reads format 1"):
        store.load()


def test_leftovers_of_a_killed_writer_go_with_the_next_save(tmp_path: Path) -> None:
    store = CheckpointStore(tmp_path, 2)
    save(store, 1)
    for name in ("state.json.7.tmp", "00000002.safetensors.7.tmp", "00000002.safetensors"):
        (store.folder / name).write_bytes(b"half")
    (store.folder / "mine.txt").write_text("not neuro's")
    assert consistent(store) == 1
    save(store, 3)
    assert sorted(path.name for path in store.folder.iterdir()) == [
        "00000001.safetensors",
        "00000003.safetensors",
        "mine.txt",
        "state.json",
    ]


def test_a_failed_write_leaves_the_old_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "file"
    write_atomically(path, b"old")

    def fail(_: int) -> None:
        raise OSError(5, "Input/output error")

    monkeypatch.setattr(os, "fsync", fail)
    with pytest.raises(OSError, match="Input/output error"):
        write_atomically(path, b"new")
    assert [path.read_bytes() for path in tmp_path.iterdir()] == [b"old"]


# --- a writer that is killed, and one whose disk is full ---

SIZE = 20_000


def save(store: CheckpointStore, generation: int) -> None:
    """A checkpoint whose parts can be checked against each other."""
    generator = torch.Generator().manual_seed(generation)
    centre = torch.randn(SIZE, generator=generator)
    digest = hashlib.sha256(centre.numpy().tobytes()).hexdigest()
    store.save(generation, {"centre": centre, "step": torch.tensor(generation)}, {"digest": digest, "at": generation})


def consistent(store: CheckpointStore, generation: int | None = None) -> int:
    """The generation of a checkpoint, all of whose parts belong to it."""
    back = store.load(generation)
    assert hashlib.sha256(back.tensors["centre"].numpy().tobytes()).hexdigest() == back.scalars["digest"]
    assert int(back.tensors["step"]) == back.scalars["at"] == back.generation
    return back.generation


def kill_writers(run: Path, kills: int) -> None:
    """Fork a process that saves for ever, kill it at a random moment, look at what it left, and again."""
    store = CheckpointStore(run, 2)
    for _ in range(kills):
        read, write = os.pipe()
        first = (store.generations() or [-1])[-1] + 1
        child = os.fork()
        if child == 0:
            for generation in range(first, 2**31):
                save(store, generation)
                os.write(write, f"{generation}\n".encode())
        os.close(write)
        with os.fdopen(read) as told:
            told.readline()
            time.sleep(random.uniform(0, 0.05))
            os.kill(child, signal.SIGKILL)
            os.waitpid(child, 0)
            last_told = int((told.read().split() or [first])[-1])
        assert consistent(store) >= last_told
        assert [consistent(store, generation) for generation in store.generations()] == store.generations()


def call(function: str) -> subprocess.CompletedProcess[str]:
    """Call a function of this module in a process of its own."""
    code = f"import sys; from pathlib import Path; sys.path[:0] = {[str(Path(__file__).parents[n]) for n in (0, 1)]}\n"
    code += f"import test_checkpoint; test_checkpoint.{function}"
    return run_forked([sys.executable, "-c", code], 300, env=clean_environment())


def test_a_killed_writer_leaves_a_complete_checkpoint(tmp_path: Path) -> None:
    well(call(f"kill_writers(Path({str(tmp_path)!r}), 15)"))
    assert consistent(CheckpointStore(tmp_path, 2)) >= 14


@contextmanager
def full_above(size: int) -> Iterator[None]:
    """No file grows beyond ``size`` bytes, as on a full disk, which needs root."""
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (size, before[1]))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)


@pytest.mark.parametrize("much", ["tensors", "scalars"])
def test_what_the_disk_does_not_take_leaves_the_checkpoints_before(tmp_path: Path, much: str) -> None:
    """Tensors do not fit, or they do and state.json does not."""
    store = CheckpointStore(tmp_path, 3)
    save(store, 4)
    with full_above(60_000), pytest.raises(UserError) as failed:
        save(store, 5) if much == "tensors" else store.save(5, {"small": torch.zeros(8)}, {"much": "x" * 60_000})
    assert str(failed.value) == (
        f"{store.folder}: cannot write the checkpoint of generation 5 (File too large); the last intact one is of generation 4"
    )
    assert sorted(path.name for path in store.folder.iterdir()) == ["00000004.safetensors", "state.json"]
    assert consistent(store) == 4
    save(store, 5)
    assert consistent(store) == 5


def test_no_folder_can_be_made(tmp_path: Path) -> None:
    (tmp_path / "run").write_text("a file")
    with pytest.raises(UserError, match=r"cannot write the checkpoint of generation 0 \(.*\); there is no earlier one"):
        CheckpointStore(tmp_path / "run", 1).save(0, {}, {})


def test_keep_must_be_positive(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="keep=0: must be >= 1"):
        CheckpointStore(tmp_path, 0)
