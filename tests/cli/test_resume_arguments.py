"""What ``resume`` may change, and that a refused change leaves the run as it was."""

import json
import shutil
from pathlib import Path

import pytest
import torch
from omegaconf import OmegaConf
from support.inside import neuro_in_one_world, neuro_inside, one_line, well
from support.worlds import needs_mpi

from neuro_cli import load
from neuro_cli.core.errors import UserError
from neuro_cli.run_folder.checkpoint import CheckpointStore

pytestmark = pytest.mark.xdist_group("ranks")

SMALL = ("population=8", "batch_size=16", "threads=1", "generations=4", "checkpoint.every=2")

NETS = """
import os
import torch
from torch import nn

class Viewing(nn.Module):
    '''view after a convolution: not for channels_last activations, with weights whose memory order matters.'''

    def __init__(self):
        super().__init__()
        self.first, self.second = nn.Conv2d(1, 3, 3, padding=1), nn.Conv2d(3, 5, 3, stride=2)
        self.out = nn.Linear(45, 10)

    def forward(self, images):
        x = torch.relu(self.second(torch.relu(self.first(images))))
        return self.out(x.view(x.shape[0], -1))

class Growing(nn.Sequential):
    '''Another network after its source was edited.'''

    def __init__(self):
        width = int(os.environ.get("WIDTH", 4))
        super().__init__(nn.Flatten(), nn.Linear(64, width), nn.Linear(width, 10))
"""


@pytest.fixture(scope="module")
def runs(tmp_path_factory) -> Path:
    """Runs of four generations: ``plain`` and those of the user's networks."""
    folder = tmp_path_factory.mktemp("runs")
    (folder / "nets_resumed.py").write_text(NETS)
    targets = {"plain": (), "viewing": ("Viewing",), "growing": ("Growing",)}
    for name, target in targets.items():
        model = [f"model._target_=nets_resumed.{kind}" for kind in target]
        well(neuro_inside("train", *SMALL, *model, f"hydra.run.dir={name}", cwd=folder))
    return folder


@pytest.fixture
def folder(runs, tmp_path) -> Path:
    """A copy that a test may change."""
    return Path(shutil.copytree(runs, tmp_path / "runs"))


def contents(run: Path) -> dict[str, bytes]:
    return {
        str(path.relative_to(run)): path.read_bytes()
        for path in sorted(run.rglob("*"))
        if path.name != "log.txt" and path.is_file()
    }


@pytest.mark.parametrize(
    ("arguments", "line"),
    [
        (["seed=5"], "seed=5: a resumed run keeps it; what can change: distribution, fabric, logger, generations, "),
        (["generations=3"], "generations=3: the checkpoint has 4 already"),
        (["checkpoint.every=0"], "checkpoint.every=0: must be an integer >= 1"),
        (["task.root=elsewhere"], "task.root=elsewhere: this run's config has no such key"),
        (["distribution.ranks_shaping=local"], "distribution.ranks_shaping=local: this run's config has no such key"),
        (["distribution=semi_updates", "distribution.ranks_shaping=local"], "distribution.ranks_shaping=local: the run's"),
        (["distribution.ranks_shaping=local", "distribution=semi_updates"], "distribution.ranks_shaping=local: the run's"),
        (["device=tpu"], "device=tpu: must be auto, cpu or cuda"),
        (["logger=csv", "checkpoint=3"], "plain: no checkpoint for generation 3; available: 0, 2, 4"),
    ],
)
def test_a_refused_change_leaves_the_run_as_it_was(folder, arguments, line):
    before = contents(folder / "plain")
    assert one_line(neuro_inside("resume", "plain", *arguments, cwd=folder)).startswith(line)
    assert contents(folder / "plain") == before


def test_a_refused_change_leaves_an_earlier_one_in_force(folder):
    done = neuro_inside("resume", "plain", "generations=6", "checkpoint.keep=1", cwd=folder)
    assert (done.returncode, len(done.stderr.splitlines())) == (0, 1), done.stderr
    assert "lr_schedule ended at generation 4" in done.stderr
    before = contents(folder / "plain")
    one_line(neuro_inside("resume", "plain", "generations=8", "device=tpu", cwd=folder))
    assert contents(folder / "plain") == before
    assert OmegaConf.load(folder / "plain" / ".hydra" / "resumed.yaml").generations == 6
    assert OmegaConf.load(folder / "plain" / ".hydra" / "config.yaml").generations == 4
    assert CheckpointStore(folder / "plain", 1).generations() == [6]


def test_a_misspelt_folder_gets_the_nearest_run(folder):
    line = "plane: not a neuro run (no .hydra/config.yaml there); did you mean plain?"
    assert one_line(neuro_inside("resume", "plane", cwd=folder)) == line


def test_a_complete_run_names_the_key_for_more_generations(folder):
    line = "neuro: its 4 generations were complete; for more: neuro resume plain generations=N"
    assert line in neuro_inside("resume", "plain", cwd=folder).stdout.splitlines()


@needs_mpi
def test_the_launcher_chooses_the_ranks_of_a_resumed_run(folder):
    config = folder / "plain" / ".hydra" / "config.yaml"
    text = config.read_text()
    assert "\nranks: null\n" in text
    config.write_text(text.replace("\nranks: null\n", "\nranks: 2\n"))  # as if begun with ranks=2
    (done,) = neuro_in_one_world(("resume", "plain", "generations=5"), cwd=folder, ranks=1)
    assert done.returncode == 0, done.stderr
    summary = json.loads((folder / "plain" / "summary.json").read_text())
    assert (summary["generations"], summary["ranks"]) == (5, 1)


def test_an_edited_network_of_another_size_is_refused(folder, monkeypatch):
    line = "model._target_=nets_resumed.Growing: it has 610 parameters now, the run's checkpoint 310; resume keeps it"
    before = contents(folder / "growing")
    for verb in ("resume", "evaluate"):
        assert one_line(neuro_inside(verb, "growing", "trust=nets_resumed", cwd=folder, WIDTH="8")) == line
    monkeypatch.setenv("WIDTH", "8")
    with pytest.raises(UserError) as caught:
        load(folder / "growing", trust=["nets_resumed"])
    assert str(caught.value) == line
    assert contents(folder / "growing") == before


def test_a_network_on_contiguous_activations_comes_back_as_it_was(folder):
    """Its parameters lie in another memory order than those of the other networks."""
    assert "contiguous ones are used, slower" in (folder / "viewing" / "log.txt").read_text()
    done = well(neuro_inside("evaluate", "viewing", "trust=nets_resumed", cwd=folder))
    summary = json.loads((folder / "viewing" / "summary.json").read_text())
    assert f"{summary['test_loss']:.4f}" in done.stdout
    model = load(folder / "viewing", trust=["nets_resumed"])
    stored = CheckpointStore(folder / "viewing", 1).load().tensors["parameters"]
    weights = torch.cat([parameter.detach().flatten() for parameter in model.parameters()])
    assert torch.equal(weights, stored)
