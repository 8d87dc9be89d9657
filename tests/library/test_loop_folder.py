"""Evolution with a run folder: its files, what commands do with it, resume after a kill and on other ranks, errors."""

import json
import runpy
import signal
import sys
from pathlib import Path

import pytest
import torch
import torch.nn.functional as F
from support.inside import neuro_inside, well
from support.thread_ranks import on_ranks
from support.worlds import program
from torch import nn

import neuro_cli as neuro
from neuro_cli.fabric.base import SingleProcess
from neuro_cli.run_folder.log import is_written
from neuro_cli.run_folder.metrics import read_metrics
from neuro_cli.run_folder.summary import parameters_sha256

PROGRAM = Path(__file__).with_name("loop_program.py")
HERE = PROGRAM.parent
NET = {"_target_": "torch.nn.Linear", "in_features": 4, "out_features": 2}
EXACT = ("generation", "fitness_mean", "fitness_best", "test_accuracy", "sigma", "rate")


def examples(generation: int) -> tuple[torch.Tensor, torch.Tensor]:
    inputs = torch.randn(16, 4, generator=torch.Generator().manual_seed(generation))
    return inputs, (inputs[:, 0] > 0).long()


def accuracy(module: nn.Module) -> float:
    assert not module.training
    inputs, targets = examples(0)
    return float((module(inputs).argmax(1) == targets).double().mean())


def trained(folder: Path, generations: int, world=None, module=NET, **options) -> torch.Tensor:
    """Centre of a loop that continues the folder's."""
    pace = {"tests": {"test_accuracy": accuracy}, "checkpoint": {"every": 3}, "evaluate": {"every": 2}}
    with neuro.Evolution(module, folder=folder, world=world, **({"population": 8, "threads": 1} | pace | options)) as es:
        while es.generation < generations:
            es.step(lambda m, x, y: F.cross_entropy(m(x), y, reduction="none"), *examples(es.generation))
        return es.centre


def exact(folder: Path) -> dict[str, list[str]]:
    """Columns that do not depend on clocks, as texts: NaN differs from itself."""
    columns = read_metrics(folder / "metrics.csv").columns
    return {name: [str(value) for value in columns[name]] for name in EXACT}


@pytest.fixture(scope="module")
def run(tmp_path_factory) -> Path:
    folder = tmp_path_factory.mktemp("loop") / "run"
    trained(folder, 7, minimise=True)
    return folder


def test_a_folder_has_what_a_command_leaves_and_commands_read_it(run):
    summary = json.loads((run / "summary.json").read_bytes())
    module = neuro.load(run)
    assert summary["parameters_sha256"] == parameters_sha256(torch.cat([p.detach().flatten() for p in module.parameters()]))
    assert summary["test_accuracy"] == accuracy(module.eval())
    metrics = neuro.Result.of(run).metrics
    assert metrics["generation"] == list(range(1, 8))
    assert [value == value for value in metrics["test_accuracy"]] == [False, True] * 3 + [False]
    assert metrics["fitness_mean"][-1] > 0  # a loss, in the user's sign
    assert not is_written(run)
    reported = neuro_inside("report", str(run), "html=false", cwd=HERE)
    assert "finished" in reported.stdout
    assert f"{summary['test_accuracy']:.4g}" in reported.stdout
    well(neuro_inside("export", str(run), f"file={run / 'out.safetensors'}", cwd=HERE))
    rows = run / "rows.csv"
    rows.write_text("1,0,0,0\n-1,0,0,0\n")
    predicted = neuro_inside("predict", str(run), str(rows), cwd=HERE)
    assert len(predicted.stdout.splitlines()) == 2, predicted.stderr


@pytest.mark.parametrize("verb", ["resume", "evaluate"])
def test_a_command_cannot_continue_a_script(run, verb):
    refused = neuro_inside(verb, str(run), cwd=HERE)
    assert (refused.returncode, "Evolution(folder=...)" in refused.stderr) == (2, True)


def test_a_module_of_a_script_is_given_to_load(tmp_path):
    """Nothing of it is stored but its tensors: no command makes it."""
    module = nn.Linear(4, 2)
    centre = trained(tmp_path / "run", 2, module=module)
    refused = neuro_inside("export", str(tmp_path / "run"), cwd=HERE)
    assert (refused.returncode, "model: made by a script" in refused.stderr) == (2, True)
    loaded = neuro.load(tmp_path / "run", model=nn.Linear(4, 2))
    assert torch.equal(torch.cat([p.detach().flatten() for p in loaded.parameters()]), centre)


def test_a_second_session_on_other_ranks_has_the_bits_of_one(tmp_path):
    """Rank 0 alone writes, and every rank gets the checkpoint."""
    wanted = trained(tmp_path / "one", 8, SingleProcess(), distribution="replicated")
    centres = on_ranks(2, lambda world: trained(tmp_path / "two", 5, world, distribution="replicated"))
    assert torch.equal(*centres)
    for centre in on_ranks(3, lambda world: trained(tmp_path / "two", 8, world, distribution="replicated")):
        assert torch.equal(centre, wanted)
    assert exact(tmp_path / "two") == exact(tmp_path / "one")


def test_a_killed_script_continues_after_its_last_checkpoint(tmp_path, monkeypatch):
    def here(name: str) -> None:
        monkeypatch.setattr(sys, "argv", ["loop_program.py", str(tmp_path / name), "10"])
        runpy.run_path(str(PROGRAM))

    here("one")
    assert program(PROGRAM, "two", "10", "8", cwd=tmp_path, ranks=0).returncode == -signal.SIGKILL
    assert not (tmp_path / "two" / "summary.json").exists()
    here("two")
    one, two = (json.loads((tmp_path / name / "summary.json").read_bytes()) for name in ("one", "two"))
    assert (one["parameters_sha256"], one["distance"]) == (two["parameters_sha256"], two["distance"])
    columns = [read_metrics(tmp_path / name / "metrics.csv") for name in ("one", "two")]
    for name in ("generation", "fitness_mean", "fitness_best"):
        assert columns[0][name].tolist() == columns[1][name].tolist()


def test_an_error_leaves_the_last_checkpoint(tmp_path):
    def fails() -> None:
        with neuro.Evolution(torch.zeros(2), population=4, threads=1, folder=tmp_path / "run") as es:
            es.tell(-es.ask().vectors.square().sum(1))
            es.ask()
            es.tell([float("nan")] * 4)

    with pytest.raises(neuro.CandidateError):
        fails()
    assert "failed" in neuro_inside("report", str(tmp_path / "run"), "html=false", cwd=HERE).stdout
    with neuro.Evolution(torch.zeros(2), population=4, threads=1, folder=tmp_path / "run") as es:
        assert es.generation == 0  # of the first checkpoint


@pytest.mark.parametrize(
    ("options", "text"),
    [
        ({"lr": 0.3}, "algo.optimizer.lr=0.3: the run's checkpoint has"),
        ({"tests": {"fitness_mean": accuracy}}, "tests: fitness_mean: every run has a column"),
        ({"tests": {"two words": accuracy}}, "tests=two words: names must be those of columns"),
        ({"checkpoint": {"best": True}}, "checkpoint.best=True: must be one of every, keep"),
        ({"logger": "cvs"}, "did you mean csv"),
        ({"folder": None}, "folder=None: logger, tests, checkpoint and evaluate are of a run folder"),
    ],
)
def test_bad_input_is_one_line(run, options, text):
    with pytest.raises(neuro.UserError) as error:
        trained(**({"folder": run, "generations": 9, "minimise": True} | options))
    assert text in str(error.value)
    assert not is_written(run)


def test_the_folder_of_a_command_or_of_a_loop_at_work_is_refused(tmp_path):
    (tmp_path / ".hydra").mkdir()
    (tmp_path / ".hydra" / "config.yaml").write_text("seed: 1\n")
    with pytest.raises(neuro.ConfigError, match="has a run of a command"):
        neuro.Evolution(torch.zeros(2), folder=tmp_path)
    busy = pytest.raises(neuro.UserError, match="another process works on this run")
    with neuro.Evolution(torch.zeros(2), population=4, folder=tmp_path / "run"), busy:
        neuro.Evolution(torch.zeros(2), population=4, folder=tmp_path / "run")
