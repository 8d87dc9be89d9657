"""Runs of pretrained networks, tokenizer and all, are evaluated, loaded and resumed from their folders."""

import json
from importlib.metadata import version

import pytest
import torch
from support.inside import neuro_inside, well
from support.tiny_language import tiny_model

from neuro_cli.runner.load import load

SHORT = ("model=huggingface", "population=4", "batch_size=2", "generations=2", "threads=1", "algo.optimizer.lr=0.001")
TASKS = {
    "reward": ("task=reward", "task.test_size=4", "task.count=20"),
    "choices": ("task=choices", "task.test_size=4", "task.count=20"),
}


@pytest.mark.parametrize("task", ["reward", pytest.param("choices", marks=pytest.mark.slow)])
def test_a_run_with_a_pretrained_tokenizer_is_evaluated_and_loaded(task, tmp_path):
    path = tiny_model(tmp_path / "tiny")
    well(neuro_inside("train", *SHORT, *TASKS[task], f"model.path={path}", "hydra.run.dir=run", cwd=tmp_path))
    summary = json.loads((tmp_path / "run" / "summary.json").read_text())
    assert summary["versions"]["transformers"] == version("transformers")
    done = well(neuro_inside("evaluate", "run", cwd=tmp_path))
    assert f"{summary['test_accuracy']:.4f}" in done.stdout
    module = load(tmp_path / "run")
    assert torch.isfinite(module(torch.tensor([module.tokenizer.encode("1+2")]))).all()


@pytest.mark.parametrize("experiment", ["es_at_scale", pytest.param("eggroll", marks=pytest.mark.slow)])
def test_the_published_settings_train(experiment, tmp_path):
    small = (
        "population=4", "batch_size=2", "generations=2", "threads=1",
        "task.count=20", "task.test_size=4", "task.new_tokens=4",
    )  # fmt: skip
    path = tiny_model(tmp_path / "tiny")
    well(neuro_inside("train", f"+experiment={experiment}", *small, f"model.path={path}", "hydra.run.dir=run", cwd=tmp_path))
    rows = (tmp_path / "run" / "metrics.csv").read_text().splitlines()
    assert len(rows) == 3
