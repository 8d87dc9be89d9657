"""Sweepers and launchers of other packages (the extras ``sweep`` and ``ray``): the real ones, which a plain environment lacks."""

import csv
import importlib.util
from pathlib import Path

import pytest
from support.inside import Done, neuro_inside, one_line, well

from neuro_cli.cli.overrides.check import IN_EXTRA

SMALL = ("population=8", "batch_size=16", "generations=2", "threads=1", "evaluate.every=1")


def sweep(cwd: Path, *arguments: str, folder: str = "sweep") -> Done:
    done = well(neuro_inside("train", "-m", *arguments, *SMALL, f"hydra.sweep.dir={folder}", cwd=cwd))
    return done


def table(folder: Path) -> list[dict[str, str]]:
    with (folder / "sweep.csv").open() as file:
        return list(csv.DictReader(file))


def measured(rows: list[dict[str, str]]) -> list[dict[str, str]]:
    """A sweep's table of finished jobs, less what is of the machine: wall_seconds, candidates_per_second."""
    assert {row["state"] for row in rows} == {"finished"}
    assert {"run", "seed", "test_accuracy", "generations"} <= rows[0].keys()
    return [{name: value for name, value in row.items() if "second" not in name} for row in rows]


@pytest.mark.slow
def test_jobs_of_joblib_leave_the_table_of_jobs_one_after_another(tmp_path):
    pytest.importorskip("hydra_plugins.hydra_joblib_launcher")
    pytest.importorskip("tensorboard")
    (tmp_path / "net.yaml").write_text("_target_: neuro_cli.model.mnist.MNIST_10K\n")
    sweep(tmp_path, "seed=1,2,3", folder="alone")
    two = ("hydra/launcher=joblib", "hydra.launcher.n_jobs=2")
    sweep(tmp_path, "seed=1,2,3", *two, "logger=[csv,tensorboard]", "model=net.yaml", folder="beside")
    assert len(list((tmp_path / "beside").glob("*/tensorboard/*"))) == 3
    assert measured(table(tmp_path / "beside")) == measured(table(tmp_path / "alone"))


@pytest.mark.slow
def test_jobs_of_ray_leave_the_table_of_jobs_one_after_another(tmp_path, monkeypatch):
    pytest.importorskip("hydra_plugins.hydra_ray_launcher")
    monkeypatch.setenv("HOME", str(tmp_path))  # Ray keeps the secret of its cluster there
    sweep(tmp_path, "seed=1,2", folder="alone")
    ray = ("hydra/launcher=ray", "+hydra.launcher.ray.init.num_cpus=2", "+hydra.launcher.ray.init.include_dashboard=false")
    sweep(tmp_path, "seed=1,2", *ray, folder="beside")
    assert measured(table(tmp_path / "beside")) == measured(table(tmp_path / "alone"))


@pytest.mark.parametrize(("option", "extra"), IN_EXTRA.items())
def test_without_its_package_a_line_names_the_extra(option, extra, tmp_path):
    if importlib.util.find_spec(f"hydra_plugins.hydra_{option}_launcher"):
        pytest.skip("the package is here")
    told = one_line(neuro_inside("train", "-m", f"hydra/launcher={option}", "seed=1,2", cwd=tmp_path))
    assert told == f"hydra/launcher={option}: is not installed: pip install '.[{extra}]'"


def test_without_optuna_a_line_names_the_extra(tmp_path, monkeypatch):
    monkeypatch.setattr("neuro_cli.core.messages.install.find_spec", lambda name: None)
    told = one_line(neuro_inside("train", "-m", "hydra/sweeper=optuna", "algo.sigma=interval(0.01,0.1)", cwd=tmp_path))
    assert told == "hydra/sweeper=optuna: is not installed: pip install '.[sweep]'"
