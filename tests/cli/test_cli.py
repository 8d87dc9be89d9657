"""The command line as users call it."""

import json
import shutil
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import torch
from support.inside import neuro_in_one_world, neuro_inside, well
from support.worlds import mostly_own, needs_mpi, neuro

from neuro_cli import load
from neuro_cli.cli.options.groups import groups, groups_of
from neuro_cli.core.errors import UserError

pytestmark = pytest.mark.xdist_group("ranks")

SMALL = ("population=8", "batch_size=16", "threads=1", "generations=2")


@pytest.fixture(scope="module")
def folder(tmp_path_factory) -> Path:
    place = tmp_path_factory.mktemp("cli")
    shutil.copy(Path(__file__).parent / "my_nets.py", place)
    return place


def test_help_lists_every_verb_and_every_option(folder):
    general = neuro("--help", cwd=folder).stdout
    for verb in ("train", "resume", "evaluate", "bench", "doctor"):
        assert f"\n  {verb} " in general
    own = neuro_inside("train", "--help", cwd=folder).stdout
    for group, options in groups().items():
        line = f"\n{group}: {', '.join(options)}\n"
        assert (line in own) == (group in groups_of("train"))
        for option in options:
            assert option in general
    assert "\ntable: " not in own


def test_help_of_a_verb_lists_its_own_groups_and_those_of_the_users_folder(tmp_path):
    assert groups_of("search") == {"task", "model", "strategy", "pool", "logger"}
    assert groups_of("evolve") == groups_of("train") | {"election", "selection"}
    (tmp_path / "mine").mkdir()
    (tmp_path / "mine" / "one.yaml").write_text("a: 1\n")
    done = neuro_inside("search", "--config-dir", str(tmp_path), "hydra.job.name=own", "--help", cwd=tmp_path).stdout
    listed = done.split("== Config")[0]
    assert "\nmine: one\n" in listed
    assert "\npool: " in listed
    assert "\nsampler: " not in listed


def test_a_reader_that_leaves_early_is_no_error(tmp_path):
    for arguments in (["--help"], ["train", "--help"]):
        with subprocess.Popen(
            [sys.executable, "-m", "neuro_cli", *arguments], cwd=tmp_path, stdout=subprocess.PIPE, stderr=subprocess.PIPE
        ) as process:
            assert process.stdout is not None
            assert process.stderr is not None
            process.stdout.close()
            assert process.stderr.read() == b""
        assert process.returncode == 128 + signal.SIGPIPE


@needs_mpi
@pytest.mark.parametrize(
    ("overrides", "methods"),
    [
        (["algo=openai_es"], {"replicated", "chromosome_updates"}),
        (["algo=sgd"], {"data_parallel"}),
        (["algo=ensemble", "algo.size=2", "algo.optimizer.lr=0.05"], {"logits_allreduce"}),
    ],
)
def test_two_ranks_need_no_choice_of_a_method(folder, overrides, methods):
    """The default, ``distribution=auto``, finds one for every kind of algorithm; with members it has the bits of one rank."""
    name = overrides[0].replace("=", "-")
    command = ("train", *SMALL, *overrides)
    (done,) = neuro_in_one_world((*command, f"hydra.run.dir={name}-2"), cwd=folder, ranks=2)
    assert done.returncode == 0, done.stderr
    assert neuro_inside(*command, f"hydra.run.dir={name}-1", cwd=folder).returncode == 0
    two, one = (json.loads((folder / f"{name}-{ranks}" / "summary.json").read_text()) for ranks in (2, 1))
    assert two["ranks"] == 2
    assert two["distribution"] in methods
    if overrides != ["algo=sgd"]:  # whose gradient is summed in the order of the ranks
        assert two["parameters_sha256"] == one["parameters_sha256"]


ON_RANKS = (*SMALL, "distribution=chromosome_updates")


@mostly_own
def test_a_sweep_under_mpi(folder, mpi):
    swept, alone = f"swept-{mpi.name}", f"alone-{mpi.name}"
    line = ("train", *ON_RANKS, "-m", "seed=1,2", f"hydra.sweep.dir={swept}")
    done: Any = None
    if mpi.name == "own":
        (done,) = neuro_in_one_world(line, cwd=folder, ranks=2)
    else:
        done = neuro(*line, cwd=folder, ranks=2, mpi=mpi)
    assert done.returncode == 0, done.stderr
    well(neuro_inside("train", *ON_RANKS, "seed=2", f"hydra.run.dir={alone}", cwd=folder))
    summaries = [json.loads((folder / run / "summary.json").read_text()) for run in (f"{swept}/1", alone)]
    assert [summary["ranks"] for summary in summaries] == [2, 1]
    assert summaries[0]["parameters_sha256"] == summaries[1]["parameters_sha256"]


@pytest.fixture(scope="module")
def own_network(folder) -> Path:
    setting = ("model._target_=my_nets.Net", "generations=4", "checkpoint.every=2", "hydra.run.dir=own")
    well(neuro_inside("train", *SMALL[:-1], *setting, cwd=folder))
    return folder / "own"


def test_a_users_own_network_trains_resumes_and_loads(folder, own_network, monkeypatch):
    log = (own_network / "log.txt").read_text()
    assert "contiguous ones are used" in log
    assert "dropout is off" in log
    monkeypatch.chdir(folder)
    with pytest.raises(UserError, match="trust=my_nets"):
        load(own_network)
    model = load(own_network, trust=["my_nets"])
    assert not model.training
    images = torch.rand(5, 1, 8, 8)
    assert torch.isfinite(model(images)).all()
    # running statistics of batch norm came with it
    assert not torch.equal(model.norm.running_mean, torch.zeros(4))
    well(neuro_inside("resume", "own", "generations=5", "trust=my_nets", cwd=folder))
    assert not torch.equal(load(own_network, trust=["my_nets"]).out.weight, model.out.weight)
    assert torch.equal(load(own_network, checkpoint=4, trust=["my_nets"])(images), model(images))
