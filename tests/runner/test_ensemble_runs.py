"""Runs of ``neuro train +algo=ensemble`` from start to end: folders, resume, lost ranks, reading."""

import json
import os
import signal
import subprocess
from itertools import combinations
from pathlib import Path

import numpy as np
import pytest
import torch
import torch.nn.functional as F
from support.configs import composed
from support.inside import Done, neuro_in_one_world, neuro_inside, one_line, well
from support.tables import rows_of
from support.worlds import (
    Mpi,
    clean_environment,
    descendants,
    mostly_own,
    needs_mpi,
    own_mpi,
    started,
    wait_for_end,
    wait_for_rows,
)

import neuro_cli
from neuro_cli.core.errors import UserError
from neuro_cli.distribution.ensemble.wire import wire_of
from neuro_cli.fabric.base import SingleProcess
from neuro_cli.runner.ensemble.members import kinds_of, load_task_of
from neuro_cli.runner.ensemble.metrics import disagreement
from neuro_cli.runner.ensemble.training import build_ensemble, refuse_unseen
from neuro_cli.runner.options import Options

pytestmark = pytest.mark.xdist_group("ranks")

SETTING = (
    "algo=ensemble", "algo.size=4", "batch_size=32", "threads=1", "generations=11", "evaluate.every=4", "checkpoint.every=3",
    "algo.optimizer.lr=0.1",
)  # fmt: skip
SMALL = (*SETTING, "model._target_=tiny_heads.Dropped")
STALE = ("distribution=logits_pipelined", "distribution.staleness=2")
TRUST = "trust=tiny_heads"
MIXED = (
    "algo.members=[{model:blog_cnn,count:2,optimizer:{lr:0.02}},{model:MNIST_10K,optimizer:{_target_:torch.optim.Adam,lr:0.001}}]"
)
ELEVEN = "algo.members=[{model:{_target_:tiny_heads.Eleven}}]"
TIMES = ("seconds", "elapsed_seconds", "candidates_per_second", "bytes")


@pytest.fixture(scope="module")
def folder(tmp_path_factory) -> Path:
    place = tmp_path_factory.mktemp("ensemble")
    (place / "tiny_heads.py").write_text((Path(__file__).parents[1] / "support" / "tiny_heads.py").read_text())
    return place


def rows(run: Path) -> list[dict[str, str]]:
    """The metrics but for timings and traffic."""
    return [{name: text for name, text in row.items() if not name.startswith(TIMES)} for row in rows_of(run / "metrics.csv")]


def outcome(run: Path) -> tuple[str, list[dict[str, str]]]:
    return json.loads((run / "summary.json").read_text())["parameters_sha256"], rows(run)


@pytest.fixture(scope="module")
def whole(folder) -> tuple[str, list[dict[str, str]]]:
    """A run in one process, without MPI."""
    well(neuro_inside("train", *SMALL, "hydra.run.dir=whole", cwd=folder))
    assert len(rows(folder / "whole")) == 11
    return outcome(folder / "whole")


@pytest.fixture(scope="module")
def pipelined(folder) -> tuple[str, list[dict[str, str]]]:
    well(neuro_inside("train", *SMALL, *STALE, "hydra.run.dir=pipelined", cwd=folder))
    return outcome(folder / "pipelined")


ON_RANKS = [  # one world runs them all: by how many of its ranks, and what
    (3, ("train", *SMALL, "hydra.run.dir=three")),
    (3, ("train", *SMALL, "distribution=logits_tree", "hydra.run.dir=tree")),
    (3, ("train", *SMALL, *STALE, "hydra.run.dir=stale")),
    (3, ("train", *SMALL, "generations=6", "algo.lr_schedule.generations=11", "hydra.run.dir=short")),
    (3, ("train", *SMALL, *STALE, "generations=6", "algo.lr_schedule.generations=11", "hydra.run.dir=stale_short")),
    (2, ("resume", "short", TRUST, "generations=9")),
    (2, ("resume", "stale_short", TRUST, "generations=9")),
    (2, ("train", *SMALL, "algo.size=1", "hydra.run.dir=few")),
    (2, ("train", *SMALL, "distribution=single_graph", "hydra.run.dir=graph")),
    (2, ("train", *SMALL, "distribution=batch_parallel", "batch_size=1", "hydra.run.dir=batch")),
    (2, ("train", *SMALL, "algo.members=[{model:{_target_:tiny_heads.Broken}}]", "hydra.run.dir=broken")),
    (2, ("train", *SMALL, "algo.members=[{model:blog_cnn,optimizer:{lr:-1}}]", "hydra.run.dir=one")),
]


@pytest.fixture(scope="module")
def on_ranks(folder) -> list[Done]:
    return neuro_in_one_world(*(line for _, line in ON_RANKS), cwd=folder, ranks=[ranks for ranks, _ in ON_RANKS])


@needs_mpi
def test_any_number_of_ranks_gives_the_same_run_and_goes_on_with_any_other(folder, whole, pipelined, on_ranks):
    for done in on_ranks[:7]:
        well(done)
    assert outcome(folder / "three") == outcome(folder / "tree") == whole
    assert outcome(folder / "stale") == pipelined != whole
    well(neuro_inside("resume", "short", TRUST, "generations=11", "distribution=logits_tree", cwd=folder))
    well(neuro_inside("resume", "stale_short", TRUST, "generations=11", cwd=folder))
    assert outcome(folder / "short")[0] == whole[0]
    assert outcome(folder / "stale_short")[0] == pipelined[0]


def test_a_pipelined_run_does_not_go_on_without_its_staleness(folder, pipelined):
    done = neuro_inside("resume", "pipelined", TRUST, "generations=12", "distribution=logits_allreduce", cwd=folder)
    assert one_line(done).startswith("distribution.staleness=0: the run's checkpoint has distribution.staleness=2")


def start(folder: Path, name: str, mpi: Mpi, *more: str) -> subprocess.Popen[bytes]:
    command = [*mpi.command(0, "-m", "neuro_cli"), "train", *SMALL, *more, "checkpoint.every=1000", f"hydra.run.dir={name}"]
    environment = clean_environment() | {"TMPDIR": str(folder), "OMPI_MCA_btl_sm_backing_directory": str(folder)}
    return started(command, cwd=folder, env=environment, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE)


def ranks_of(process: subprocess.Popen[bytes]) -> list[int]:
    """The processes of a world that are its ranks."""
    found = []
    for pid in descendants(process.pid):
        words = Path(f"/proc/{pid}/cmdline").read_bytes().split(b"\0")
        if b"start" in words and b"python" in words[0]:
            found.append(pid)
    return found


@needs_mpi
@mostly_own
def test_a_lost_rank_costs_no_whole_iteration(folder, mpi):
    """SIGKILL to one of two ranks: the run fails with a checkpoint of the last iteration that all members have."""
    many = ("generations=100000", "algo.lr_schedule.generations=40")
    name = f"lost-{mpi.name}"
    process = start(folder, name, mpi, *many, "ranks=2")
    wait_for_rows(folder / name, 7, process)
    os.kill(ranks_of(process)[-1], signal.SIGKILL)
    errors = process.communicate(timeout=240)[1].decode()
    assert process.returncode != 0
    done = len(rows(folder / name))
    found = [int(path.name[:8]) for path in (folder / name / "checkpoints").glob("*.member-0.*")]
    assert max(found) in (done - 1, done)  # members are written a moment before the row, or not any more by the killed rank
    assert f"checkpoint of generation {max(found)}, the last complete one" in errors
    assert not (folder / name / "checkpoints" / "last_step").exists()
    more = max(found) + 3
    well(neuro_inside("resume", name, TRUST, f"generations={more}", cwd=folder))
    well(neuro_inside("train", *SMALL, *many[1:], f"generations={more}", f"hydra.run.dir={name}-whole", cwd=folder))
    assert outcome(folder / name)[0] == outcome(folder / f"{name}-whole")[0]


@pytest.mark.slow  # default tests kill one of two ranks
@needs_mpi
def test_resume_finds_what_a_killed_world_left(folder):
    """Runner, launcher and ranks are all killed: the next resume writes the checkpoint."""
    process = start(folder, "gone", own_mpi(), "generations=100000", "ranks=2", "distribution=logits_pipelined")
    wait_for_rows(folder / "gone", 6, process)
    world = [*ranks_of(process), *descendants(process.pid)]
    for pid in [*world, process.pid]:
        try:
            os.kill(pid, signal.SIGKILL)
        except ProcessLookupError:
            continue
    process.communicate()
    wait_for_end(world)
    assert (folder / "gone" / "checkpoints" / "last_step").exists()
    well(neuro_inside("resume", "gone", TRUST, "generations=60", cwd=folder))
    assert "the last complete one" in (folder / "gone" / "log.txt").read_text()
    numbers = [int(row["generation"]) for row in rows(folder / "gone")]
    assert numbers == list(range(1, 61))


@pytest.fixture(scope="module")
def mixed(folder) -> Path:
    """Four members of one kind, and three with other networks and optimizers."""
    line = ("train", *SETTING, MIXED, "generations=5", "hydra.run.dir=mixed")
    well(neuro_inside(*line, cwd=folder))
    return folder / "mixed"


def test_members_of_several_kinds(folder, mixed):
    summary = json.loads((mixed / "summary.json").read_text())
    assert summary["members"] == 7
    assert summary["parameters"] == 5 * 11_274 + 2 * 8_470
    assert "ensemble of 7 members: 4 MNIST_10K, 2 BlogCNN, 1 MNIST_10K" in (mixed / "log.txt").read_text()
    done = neuro_inside("resume", "mixed", TRUST, "generations=6", cwd=folder)
    well(done)


def test_load_gives_the_product_of_experts(folder, mixed, monkeypatch):
    """The loaded network has the metrics that the run reported; plain loops compute each member's and the diversity."""
    module = neuro_cli.load(mixed, checkpoint=5)
    assert [type(member).__name__ for member in module.members] == ["MNIST_10K"] * 4 + ["BlogCNN"] * 2 + ["MNIST_10K"]
    config = composed(*SETTING)
    task, _ = load_task_of(kinds_of(config), Options(config), torch.device("cpu"), SingleProcess())
    batch = task.test_batch(0)
    with torch.no_grad():
        logits = [member(batch.inputs) for member in module.members]
        mean = module(batch.inputs)
    assert torch.allclose(mean, sum(logits) / 7, atol=1e-5)
    reported = {name: float(text) for name, text in rows(mixed)[4].items() if text}
    accuracy = float((mean.argmax(1) == batch.targets).double().mean())
    assert reported["test_accuracy"] == pytest.approx(accuracy)
    assert reported["test_loss"] == pytest.approx(float(F.cross_entropy(mean, batch.targets)), rel=1e-5)
    for number, own in enumerate(logits):
        assert reported[f"member_{number}_test_loss"] == pytest.approx(float(F.cross_entropy(own, batch.targets)), rel=1e-5)
        accuracy = float((own.argmax(1) == batch.targets).double().mean())
        assert reported[f"member_{number}_test_accuracy"] == pytest.approx(accuracy)
    votes = [own.argmax(1) for own in logits]
    pairs = [float((a != b).double().mean()) for a, b in combinations(votes, 2)]
    assert reported["diversity"] == pytest.approx(sum(pairs) / len(pairs), abs=1e-12)


def test_evaluate_prints_what_the_run_reported(folder, mixed):
    done = neuro_inside("evaluate", "mixed", "checkpoint=5", cwd=folder)
    well(done)
    reported = rows(mixed)[4]
    for name in ("test_accuracy", "diversity", "member_6_test_loss"):
        assert f"{float(reported[name]):.4f}" in done.stdout


def test_disagreement_of_one_member_is_none():
    assert disagreement(np.array([[1, 0], [0, 1]])) == 0.0


@pytest.mark.parametrize(
    ("overrides", "line"),
    [
        (["algo.size=0"], "algo.size=0: an ensemble needs at least one member: size > 0, or algo.members"),
        ([ELEVEN], "algo.members.0: Eleven gives 11 logits, Dropped (model) gives 10"),
        (["algo.members=[{model:blog_cn}]"], "model=blog_cn: no such option; did you mean blog_cnn?"),
        (["algo.members=[{model:blog_cnn,coutn:2}]"], "algo.members.0.coutn=2: no such key; did you mean count?"),
        (["algo.members=[{model:blog_cnn,count:0}]"], "algo.members.0.count=0: must be an integer >= 1"),
        (["algo.members=[{count:2}]"], "algo.members.0.model=None: must be an option of the group model"),
        (["algo.members=[MNIST_10K]"], "algo.members.0=MNIST_10K: must be an entry like {model: MNIST_10K"),
        (["algo.members=blog_cnn"], "algo.members=blog_cnn: must be a list"),
        (["algo.members=[{model:blog_cnn,optimizer:{lr:-1}}]"], "algo.members.0.optimizer.lr=-1: must be a number >= 0"),
        (
            ["algo.members=[{model:blog_cnn,optimizer:{_target_:torch.nn.Linear}}]"],
            "algo.members.0.optimizer._target_=torch.nn.Linear",
        ),
        (["algo.members=[{model:CIF_300K}]"], "model=CIF_300K, task=Digits: the model does not take 1x28x28 examples"),
        (["distribution=local"], "distribution=local: algo=ensemble needs one of logits_allreduce"),
        (["distribution=logits_microbatches", "distribution.pieces=33"], "distribution.pieces=33: must be <= batch_size=32"),
        (["layout=per_example"], "layout=per_example: algo=ensemble takes shared_batch"),
        (["precision=bfloat16"], "precision=bfloat16: algo=ensemble takes float32"),
    ],
)
def test_bad_input_is_one_line_and_costs_no_folder(folder, overrides, line):
    done = neuro_inside("train", *SMALL, *overrides, "hydra.run.dir=refused", cwd=folder)
    assert one_line(done).startswith(line)
    assert not (folder / "refused").exists()


def test_other_algorithms_take_no_exchange_of_logits(folder):
    done = neuro_inside("train", "algo=sgd", "distribution=logits_tree", "hydra.run.dir=refused", cwd=folder)
    assert one_line(done).startswith("distribution=logits_tree: it trains ensembles: choose algo=ensemble")


@needs_mpi
def test_bad_input_on_ranks_is_one_line(on_ranks):
    few, graph, batch, broken, one = on_ranks[7:]
    assert one_line(few).startswith("ranks=2: must be <= the 1 members of the ensemble")
    assert one_line(graph).startswith("distribution=single_graph (on 2 ranks): one graph needs 1 rank")
    assert one_line(batch).startswith("ranks=2: must be <= batch_size=1")
    assert one_line(broken).startswith("member 4 of the ensemble gives a logit of nan in iteration 1 ")
    assert one_line(one).startswith("rank 1: algo.members.0.optimizer.lr=-1: must be a number >= 0")  # who has that member


def test_a_changed_network_is_refused(folder, whole):
    config = folder / "whole" / ".hydra" / "config.yaml"
    before = config.read_text()
    try:
        config.write_text(before.replace("tiny_heads.Dropped", "tiny_heads.Eleven"))
        evaluated = neuro_inside("evaluate", "whole", TRUST, cwd=folder)
    finally:
        config.write_text(before)
    assert "tiny_heads" in one_line(evaluated)


def test_a_damaged_member_is_named_and_the_checkpoint_before_is_offered(folder, whole):
    (shard,) = (folder / "whole" / "checkpoints").glob("00000011.member-2.*")
    content = shard.read_bytes()
    try:
        shard.write_bytes(content[:-1] + b"?")
        done = neuro_inside("resume", "whole", TRUST, "generations=12", cwd=folder)
    finally:
        shard.write_bytes(content)
    text = one_line(done)
    assert shard.name in text
    assert "neuro resume whole checkpoint=9" in text


def test_batch_norm_statistics_of_shared_batches_are_averaged(folder):
    """With batch_parallel every rank ends with the same running statistics, so the ranks' members are one."""
    config = composed(
        "algo=ensemble", "distribution=batch_parallel", "algo.size=1", "model=CIF_300K", "batch_size=8", "threads=1"
    )
    work = build_ensemble(Options(config), SingleProcess())
    work.step(0)
    member = work._job.members[0]
    averaged = [averaged for _, averaged in member.shared()]
    assert averaged.count(True) == 2 * 9  # mean and variance of nine norms
    work.close()


def test_a_rank_that_does_not_see_the_run_folder_says_so(tmp_path):
    refuse_unseen(tmp_path)
    with pytest.raises(UserError, match="this rank does not see it; algo=ensemble needs a file system that all ranks share"):
        refuse_unseen(tmp_path / "elsewhere", patience=0.0)


def test_encoding_leaves_logits_as_they_are():
    logits = torch.randn(3, 4, dtype=torch.float64)
    before = logits.clone()
    wire_of("fixed", 2).encode([logits])
    assert torch.equal(logits, before)


HEADS = """
import json
from pathlib import Path

import numpy as np
import torch
from torch import nn



def seed():
    return json.loads(Path("seed.json").read_text())


class Head(nn.Module):
    def __init__(self):
        super().__init__()
        self.last = nn.Linear(64, 10)

    def forward(self, images):
        return self.last(images.flatten(1))


class Sparse(Head):
    def __init__(self):
        super().__init__()
        self.register_buffer("links", torch.eye(64).to_sparse_csr())
        self.fixed = nn.Parameter(torch.eye(64).to_sparse(), requires_grad=False)

    def forward(self, images):
        return super().forward((self.links @ torch.sparse.mm(self.fixed, images.flatten(1).T)).T)


class Links(Head):
    def __init__(self):
        super().__init__()
        self.register_buffer("links", torch.diag(torch.from_numpy(np.random.default_rng(seed()).random(64)).float()).to_sparse())

    def forward(self, images):
        return super().forward(torch.sparse.mm(self.links, images.flatten(1).T).T)


class Drawn(Head):
    def __init__(self):
        super().__init__()
        self.scale = np.random.default_rng(seed()).random(64).astype("float32")

    def forward(self, images):
        return super().forward(images.flatten(1) * torch.from_numpy(self.scale))


class Other(Head):
    def get_extra_state(self):
        return {"scale": 2.0}

    def set_extra_state(self, state):
        pass


class Complex(Head):
    def __init__(self):
        super().__init__()
        self.register_buffer("phase", torch.full((64,), 1j))

    def forward(self, images):
        return super().forward((images.flatten(1) * self.phase).abs())


class Expanded(Head):
    def __init__(self):
        super().__init__()
        self.scale = nn.Parameter(torch.ones(1).expand(64))

    def forward(self, images):
        return super().forward(images.flatten(1) * self.scale)
"""


@pytest.mark.parametrize("name", ["Sparse", "Other", "Complex", "Expanded"])
def test_members_with_constants_of_any_kind_are_trained_resumed_and_evaluated(tmp_path, name):
    """An expanded parameter's step wrote beyond its memory; sparse numbers and other state ended a run at its checkpoint."""
    (tmp_path / "heads.py").write_text(HEADS)
    small = ("algo=ensemble", "algo.size=2", "batch_size=16", "threads=1", "checkpoint.every=1", "evaluate.every=2")
    for folder, generations in (("run", 4), ("again", 2)):
        options = (f"model._target_=heads.{name}", f"generations={generations}", f"hydra.run.dir={folder}")
        well(neuro_inside("train", *small, *options, cwd=tmp_path))
    well(neuro_inside("resume", "again", "generations=4", "trust=heads", cwd=tmp_path))
    assert outcome(tmp_path / "again") == outcome(tmp_path / "run")
    well(neuro_inside("evaluate", "run", "trust=heads", "output=found.json", cwd=tmp_path))
    found, summary = (json.loads((tmp_path / file).read_text()) for file in ("found.json", "run/summary.json"))
    assert found["test_loss"] == summary["test_loss"]
    assert summary["test_loss"] < 5.0


@pytest.mark.parametrize(
    ("name", "kinds"), [("Links", "buffers or frozen parameters"), ("Drawn", "tensors or arrays in attributes")]
)
def test_members_with_other_numbers_that_no_file_has_are_refused(tmp_path, name, kinds):
    """A generator without a seed is refused at the start, and other numbers than the run's by all that takes the run."""
    small = ("algo=ensemble", "algo.members=[{model:{_target_:heads.Head}}]", "algo.size=1", "batch_size=16", "threads=1")
    options = (f"model._target_=heads.{name}", "checkpoint.every=1", "generations=2", "hydra.run.dir=run")
    (tmp_path / "heads.py").write_text(HEADS)
    for seed, verbs in ((None, ("train",)), (1, ()), (2, ("evaluate", "export", "resume"))):
        (tmp_path / "seed.json").write_text(json.dumps(seed))
        if seed == 1:
            well(neuro_inside("train", *small, *options, cwd=tmp_path))
        given = {"train": (*small, *options), "resume": ("run", "trust=heads", "checkpoint=1")}
        for verb in verbs:
            refused = neuro_inside(verb, *given.get(verb, ("run", "trust=heads")), cwd=tmp_path)
            assert refused.returncode == 2
            assert f"model={name}: its {kinds} differ from those of the run: draw them by torch" in refused.stderr
        assert (tmp_path / "run").exists() == (seed is not None)
