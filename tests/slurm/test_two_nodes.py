"""Ranks on two nodes of a SLURM of our own, started in each way of the pages: one run, the same parameters."""

import subprocess
import sys

import pytest
from support.inside import neuro_inside
from support.private_slurm import started
from support.tables import sha_of
from support.torch_ranks import free_port

WORDS = (
    *("train", "population=8", "batch_size=16", "threads=1", "generations=4", "evaluate.every=100"),
    "distribution=chromosome_updates",
)
NEURO = (sys.executable, "-m", "neuro_cli")
FOUR = ("srun", "--nodes=2", "--ntasks-per-node=2", "--mpi=pmi2", *NEURO)
MEETING = ("srun", "--nodes=2", "--ntasks-per-node=2", "--mpi=none", *NEURO)
AGENTS = ("srun", "--nodes=2", "--ntasks-per-node=1", "--mpi=none", sys.executable, "-m", "torch.distributed.run")
SWEEP = ("-m", "hydra/launcher=slurm", "ranks=4", "hydra.launcher.additional_parameters.nodes=2", "hydra.sweep.dir=.")


@pytest.fixture(scope="module")
def nodes(tmp_path_factory):
    """The environment of a SLURM of two nodes."""
    yield from started(tmp_path_factory.mktemp("slurm"), cpus=2, nodes=2)


@pytest.mark.slow
def test_ranks_on_two_nodes_have_the_parameters_of_one_process(nodes, tmp_path):
    port = {"MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(free_port())}
    agents = ("--nnodes=2", "--nproc-per-node=2", "--rdzv-backend=c10d", f"--rdzv-endpoint=127.0.0.1:{free_port()}")
    ways = {
        "mpi": ([*FOUR, *WORDS], {}),
        "variables": ([*MEETING, *WORDS], port),
        "torchrun": ([*AGENTS, *agents, "-m", "neuro_cli", *WORDS], {}),
        "batch": (["sbatch", "--wait", "--nodes=2", "--ntasks-per-node=2", "job.sh"], {}),
        "0": ([*NEURO, *WORDS, *SWEEP], {}),
    }
    script = " ".join(["exec", *NEURO, *WORDS, "ranks=4", "hydra.run.dir=batch"])
    (tmp_path / "job.sh").write_text(f"#!/bin/bash\n{script}\n")
    assert neuro_inside(*WORDS, "distribution=local", "hydra.run.dir=alone", cwd=tmp_path).returncode == 0
    for name, (command, variables) in ways.items():
        words = command if name in ("batch", "0") else [*command, f"hydra.run.dir={name}"]
        done = subprocess.run(words, cwd=tmp_path, env=nodes | variables, capture_output=True, text=True, timeout=300)
        assert done.returncode == 0, done.stdout + done.stderr
        assert sha_of(tmp_path / name) == sha_of(tmp_path / "alone"), name
        assert ", 4 ranks, " in (tmp_path / name / "log.txt").read_text(), name
