"""Peers that tune a pretrained model: its frozen tensors are on no wire and in no file of theirs, and GGUF comes back as GGUF."""

import json
import shutil

import pytest
from support.inside import neuro_inside, one_line

pytest.importorskip("gguf")

from support.tiny_language import tiny_gguf, tiny_model

TASK = (
    "task=reward",
    "task.reward=log_likelihood",
    "model=huggingface",
    "task.count=60",
    "task.test_size=10",
    "layout=per_example",
    "batch_size=4",
    "population=4",
)
SMALL = (
    "generations=4",
    "threads=1",
    "evaluate.every=100",
    "algo.sigma=0.05",
    "selection.shaping=pair_rank",
    "cluster.deadline=60",
)


@pytest.mark.slow  # transformers takes seconds in each of five processes; tests/evolve/test_apply.py has a network of ours
@pytest.mark.parametrize("kind", ["gguf", "folder"])
def test_a_tuned_model_is_its_base_and_a_small_file(kind, tmp_path):
    folder = tiny_model(tmp_path / "base")
    base = folder if kind == "folder" else tiny_gguf(tmp_path / "base.gguf", folder)

    def neuro(*arguments: str):
        return neuro_inside(*arguments, cwd=tmp_path)

    path = (f"model.path={base}", f"task.tokenizer={folder}")
    done = neuro("evolve", *TASK, *SMALL, *path, "cluster.local_peers=2", "hydra.run.dir=run")
    assert done.returncode == 0, done.stderr
    one, other = (json.loads((tmp_path / run / "summary.json").read_text()) for run in ("run", "run/peers/1"))
    assert one["parameters_sha256"] == other["parameters_sha256"]
    assert one["parameters"] == 5 * 32  # norms: two a layer, and the last
    checkpoint = next((tmp_path / "run/checkpoints").glob("*.safetensors"))
    assert checkpoint.stat().st_size < 4 * 5 * 32 * 3 + 2000

    tuned = "tuned.gguf" if kind == "gguf" else "tuned"
    for file in (tuned, "small.ledger"):
        exported = neuro("evolve", "export", "run", f"file={file}")
        assert exported.returncode == 0, exported.stderr
    elsewhere = tmp_path / "another" / f"place{base.suffix}"
    elsewhere.parent.mkdir()
    (shutil.copytree if base.is_dir() else shutil.copy)(base, elsewhere)
    again = f"again{base.suffix}"
    applied = neuro("apply", "small.ledger", str(elsewhere), f"file={again}")
    assert f"iteration 4, parameters {one['parameters_sha256'][:16]}" in applied.stdout, applied.stderr
    assert str(base) not in (tmp_path / "small.ledger").read_bytes().decode(errors="replace")
    pairs = [(tmp_path / tuned, tmp_path / again)]
    if base.is_dir():
        pairs = [(file, tmp_path / again / file.name) for file in (tmp_path / tuned).glob("*.safetensors")]
    for mine, theirs in pairs:
        assert mine.read_bytes() == theirs.read_bytes()
        assert mine.read_bytes() != (base if kind == "gguf" else base / mine.name).read_bytes()

    line = one_line(neuro("apply", "small.ledger", str(tmp_path / tuned), f"file=third{base.suffix}"))
    assert f"{tuned}: not the base of this ledger: its initial parameters is {one['parameters_sha256']}, the ledger's " in line
    assert (
        one_line(neuro("apply", "small.ledger", str(elsewhere), f"file={again}")) == f"file={again}: exists: name another place"
    )
