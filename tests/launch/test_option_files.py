"""Jobs that are sent elsewhere name an option's file, where this process knows the option by a name."""

from pathlib import Path

import pytest
from support.inside import neuro_inside, one_line

from neuro_cli.launch import broker_sweep
from neuro_cli.launch.broker_sweep import SweepJob, _task

MNIST = "_target_: neuro_cli.model.mnist.MNIST_10K\noutputs: 10\n"


def test_jobs_for_workers_name_files_and_lists_as_typed(tmp_path, monkeypatch):
    pytest.importorskip("grpc")
    (tmp_path / "nets").mkdir()
    for name in ("best-1", "best-2"):
        (tmp_path / "nets" / f"{name}.yaml").write_text(MNIST)
    sent: list[SweepJob] = []

    def run_jobs(jobs, settings):
        sent.extend(jobs)
        return [None for _ in jobs]

    monkeypatch.setattr(broker_sweep, "run_jobs", run_jobs)
    nets = "model=nets/best-1.yaml,nets/best-2.yaml"
    overrides = (nets, "logger=[csv,tensorboard]", "hydra.sweep.dir=sweep")
    neuro_inside("train", "-m", "hydra/launcher=broker", *overrides, cwd=tmp_path)
    assert [sorted(_task(job).payload["overrides"]) for job in sent] == [
        ["logger=[csv,tensorboard]", "model=nets/best-1.yaml"],
        ["logger=[csv,tensorboard]", "model=nets/best-2.yaml"],
    ]


def test_a_folder_of_options_is_not_sent(tmp_path):
    pytest.importorskip("grpc")
    (tmp_path / "mine" / "algo").mkdir(parents=True)
    (tmp_path / "mine" / "algo" / "steep.yaml").write_text("_target_: my.Steep\n")
    for way in (("--config-dir", "mine"), ("hydra.searchpath=[file://mine]",)):
        text = one_line(neuro_inside("train", "-m", "hydra/launcher=broker", *way, "algo=steep", cwd=tmp_path))
        assert text.startswith("hydra/launcher=broker: its workers have no --config-dir")
    assert sorted(path.name for path in Path(tmp_path).iterdir()) == ["mine"]
