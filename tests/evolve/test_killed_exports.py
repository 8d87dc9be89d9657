"""A model or ledger whose export is killed never looks complete, an older file stays, and the next try gives the same bytes."""

import shutil
from pathlib import Path

import pytest
from support.inside import neuro_inside, well
from support.killed import killed

SMALL = ("population=4", "batch_size=16", "generations=3", "threads=1", "cluster.local_peers=1", "checkpoint.every=2")
EXPORT = ("evolve", "export", "run")
APPLY = ("apply", "small.ledger", "first.safetensors")


@pytest.fixture(scope="module")
def folder(tmp_path_factory) -> Path:
    made = tmp_path_factory.mktemp("exported")
    well(neuro_inside("evolve", *SMALL, "hydra.run.dir=run", cwd=made))
    well(neuro_inside(*EXPORT, "file=first.safetensors", "iteration=0", cwd=made))
    well(neuro_inside(*EXPORT, "file=small.ledger", cwd=made))
    well(neuro_inside(*EXPORT, "file=exported.safetensors", cwd=made))
    well(neuro_inside(*APPLY, "file=applied.safetensors", cwd=made))
    return made


@pytest.mark.parametrize(
    ("command", "whole", "call"),
    [
        (EXPORT, "exported.safetensors", "save_file"),
        (EXPORT, "small.ledger", "replace"),
        (APPLY, "applied.safetensors", "fsync"),
        pytest.param(EXPORT, "exported.safetensors", "fsync", marks=pytest.mark.slow),
        pytest.param(EXPORT, "small.ledger", "fsync", marks=pytest.mark.slow),
        pytest.param(APPLY, "applied.safetensors", "replace", marks=pytest.mark.slow),
    ],
)
def test_a_killed_export_leaves_the_old_file_and_nothing_after_the_next(folder, command, whole, call):
    new = Path(whole).with_stem("new").name
    (folder / new).write_bytes(b"older")
    before = sorted(each.name for each in folder.iterdir())
    killed(folder, call, new if call == "replace" else f"{new}.tmp", 1, *command, f"file={new}")
    assert (folder / new).read_bytes() == b"older"
    well(neuro_inside(*command, f"file={new}", cwd=folder))
    assert (folder / new).read_bytes() == (folder / whole).read_bytes()
    assert sorted(each.name for each in folder.iterdir()) == before
    (folder / new).unlink()


@pytest.mark.slow  # transformers takes seconds in each process
@pytest.mark.parametrize("kind", ["gguf", "folder", "gguf as a folder"])
def test_a_killed_copy_of_a_base_has_no_name(kind, tmp_path, monkeypatch):
    pytest.importorskip("gguf")
    from support.tiny_language import tiny_gguf, tiny_model

    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    model = tiny_model(tmp_path / "base")
    base = model if kind == "folder" else tiny_gguf(tmp_path / "base.gguf", model)
    task = ("task=reward", "task.reward=log_likelihood", f"task.tokenizer={model}", "task.count=20", "task.test_size=4")
    well(neuro_inside("evolve", *SMALL, *task, "model=huggingface", f"model.path={base}", "batch_size=4", "layout=per_example",
                      "hydra.run.dir=run", cwd=tmp_path))  # fmt: skip
    well(neuro_inside(*EXPORT, "file=small.ledger", cwd=tmp_path))
    name = "tuned.gguf" if kind == "gguf" else "tuned"

    def content(place: Path) -> dict[str, bytes]:
        files = [place] if place.is_file() else sorted(path for path in place.rglob("*") if path.is_file())
        return {path.name.replace("again", "tuned"): path.read_bytes() for path in files}

    well(neuro_inside(*EXPORT, f"file={name}", cwd=tmp_path))
    for command in (EXPORT, ("apply", "small.ledger", str(base))):
        again = name.replace("tuned", "again")
        before = sorted(each.name for each in tmp_path.iterdir())
        killed(tmp_path, "replace", again, 1, *command, f"file={again}")
        assert not (tmp_path / again).exists()
        well(neuro_inside(*command, f"file={again}", cwd=tmp_path))
        assert content(tmp_path / again) == content(tmp_path / name)
        assert sorted(each.name for each in tmp_path.iterdir()) == sorted([*before, again])
        (shutil.rmtree if (tmp_path / again).is_dir() else Path.unlink)(tmp_path / again)
