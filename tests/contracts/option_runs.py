"""Small runs of one option each, for the contracts: the settings that an option needs, a run as a kill leaves it, its results."""

import shutil
from pathlib import Path
from typing import Any

import torch
from safetensors.torch import load_file
from support.configs import class_of, composed
from support.tables import rows_of
from torch import Tensor
from torch.utils.data import Dataset

from neuro_cli.cli.options.groups import groups
from neuro_cli.distribution.ensemble.base import EnsembleMethod
from neuro_cli.fabric.base import SingleProcess, World
from neuro_cli.logger.base import Logger, Row
from neuro_cli.run_folder.checkpoint import Checkpoint, CheckpointStore
from neuro_cli.run_folder.model_file import MODEL
from neuro_cli.runner.loop import train
from neuro_cli.runner.options import Options

GROUPS = ("algo", "task", "distribution", "logger")
CASES = [(group, option) for group in GROUPS for option in groups()[group]]
# another id, or other files, of lunar_lander, hopper or mnist
TWINS = {("task", name) for name in ("ant", "bipedal_walker", "half_cheetah", "gymnasium", "fashion_mnist")}
GENERATIONS, KILLED = 4, 3
SEVERAL = "neuro_cli.logger.several.Several"
SMALL = ("population=12", "batch_size=12", "threads=1", f"generations={GENERATIONS}", "checkpoint.every=2", "evaluate.every=4")
ENSEMBLE = ("algo=ensemble", "algo.size=4")
EPISODES = ("task.max_steps=30", "task.evaluation_episodes=2", "task.environments=4", "model.hidden=[5]", "algo.sigma=0.5")
# what an option needs beyond its defaults: data, or a small size
NEEDS = {
    ("algo", "cma_es"): ("model=mlp_policy", "model.hidden=[4]"),
    ("algo", "xnes"): ("model=mlp_policy", "model.hidden=[4]"),
    ("task", "mnist"): ("task.root={data}",),
    ("task", "fashion_mnist"): ("task.root={data}", "task.system_folder=null"),
    ("task", "cifar10"): ("task.root={data}", "model=mlp_policy"),
    ("task", "image_folder"): ("task.root={data}/images", "model=mlp_policy", "batch_size=6"),
    ("task", "dataset"): (
        *(f"task.{part}._target_={__name__}.Points" for part in ("train", "test")),
        *("+task.train.count=24", "+task.test.count=8", "model=mlp_policy"),
    ),
    ("task", "text"): ("task.files={data}/text.txt", "task.context=4", "model.width=8", "model.depth=1"),
    ("task", "reward"): ("task.count=60", "task.test_size=8", "model.width=8", "model.depth=1"),
    ("task", "choices"): ("task.count=60", "task.test_size=8", "model.width=8", "model.depth=1"),
    ("logger", "wandb"): ("logger.mode=offline",),
}  # fmt: skip
# packages that a logger needs
EXTRAS = {"tensorboard": ("tensorboard",), "mlflow": ("lightning", "mlflow"), "comet": ("lightning", "comet_ml")}


class Points(Dataset):
    """``count`` vectors of six numbers, whose class is the sign of their sum."""

    classes = ("below", "above")

    def __init__(self, count: int) -> None:
        self.inputs = torch.randn(count, 6, generator=torch.Generator().manual_seed(count))

    def __len__(self) -> int:
        return len(self.inputs)

    def __getitem__(self, index: int) -> tuple[Tensor, int]:
        return self.inputs[index], int(self.inputs[index].sum() > 0)


class Snapshot(Logger):
    """Copies the run folder after generation ``KILLED``: what a kill at that moment leaves."""

    def start(self, run: Path, config: dict[str, Any], resumed_at: int | None) -> None:
        self.run = run

    def log(self, row: Row) -> None:
        if row["generation"] == KILLED:
            shutil.copytree(self.run, killed(self.run), dirs_exist_ok=True)

    def finish(self, summary: dict[str, Any]) -> None:
        """Nothing to close."""


def killed(run: Path) -> Path:
    """The folder of the run that was killed where ``run`` went on."""
    return run.with_name(f"{run.name}-killed")


def setting(group: str, option: str, data: Path) -> tuple[str, ...]:
    """The overrides of a small run of an option."""
    chosen = [
        f"{group}={option}",
        *(text.format(data=data) if "{data}" in text else text for text in NEEDS.get((group, option), ())),
    ]
    if group == "task" and class_of(option, "task").__name__ == "Reinforcement":
        chosen += EPISODES
    if group == "distribution" and issubclass(class_of(option, "distribution"), EnsembleMethod):
        chosen += ENSEMBLE
    return (*SMALL, *chosen)


def options(overrides: tuple[str, ...]) -> Options:
    """The parts of a run, with the snapshot along with the chosen logger."""
    config = composed(*overrides)
    both = {"_target_": SEVERAL, "chosen": config["logger"], "snapshot": {"_target_": f"{__name__}.Snapshot"}}
    return Options(config | {"logger": both})


def trained(overrides: tuple[str, ...], run: Path, world: World | None = None, checkpoint: Checkpoint | None = None) -> Path:
    """Train a run to its end; return its folder."""
    run.mkdir(exist_ok=True)
    train(options(overrides), world or SingleProcess(), run, checkpoint)
    return run


def resumed(overrides: tuple[str, ...], run: Path) -> Path:
    return trained(overrides, run, checkpoint=CheckpointStore(run, keep=3).load())


def network(run: Path) -> dict[str, Tensor]:
    """Tensors of the trained network."""
    return load_file(run / MODEL)


def state(run: Path, generation: int) -> dict[str, Tensor]:
    """Tensors of a checkpoint, shards included."""
    left = CheckpointStore(run, keep=3).load(generation)
    shards = {f"{each.name}/{name}": tensor for each in left.shards for name, tensor in left.shard(each.name).tensors.items()}
    return left.tensors | shards


def curve(run: Path) -> list[dict[str, str]]:
    """Rows of ``metrics.csv`` without what is measured in seconds or bytes."""
    rows = rows_of(run / "metrics.csv")
    measured = ("seconds", "bytes", "per_second", "efficiency")
    return [{name: value for name, value in row.items() if not any(word in name for word in measured)} for row in rows]
