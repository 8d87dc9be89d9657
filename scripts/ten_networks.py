"""Accuracy of ten classifiers after so many seconds: noise on activations with its defaults, and stochastic gradient descent.

    python scripts/ten_networks.py --seconds 120 --out build/ten_networks.csv
    python scripts/ten_networks.py --seconds 120 --task mnist --side 28 --only mlp_128x2 gru

Each network is trained by ``neuro.train`` from the same initial weights in three ways: ``sampler=activation`` and nothing else,
the SGD of torch with its own defaults (rate 0.001, no momentum, constant), and ``algo=sgd`` (0.05, momentum 0.9, cosine). A short
trial of each says how many generations fit, for schedules need their length; a time limit ends what takes longer. Start is not
counted.
"""

import argparse
import csv
import statistics
import sys
import tempfile
from collections.abc import Callable
from functools import partial
from itertools import pairwise
from pathlib import Path

import torch
from torch import Tensor, nn
from torchvision.models import VisionTransformer

import neuro_cli as neuro
from neuro_cli.core.errors import UserError, report
from neuro_cli.core.seeds import seeded
from neuro_cli.model.ternary_cnn import TernaryCNN

CLASSES, TRIAL = 10, 6  # generations of a trial; the first one compiles
WAYS = {
    "activation": ("sampler=activation",),
    "sgd_of_torch": (
        "+algo=sgd",
        "algo.optimizer.lr=0.001",
        "algo.optimizer.momentum=0.0",
        "algo.lr_schedule.kind=constant",
    ),
    "sgd": ("+algo=sgd",),
}


class Image(nn.Module):
    """Network ``inner`` for grey images of ``side`` x ``side``."""

    def __init__(self, side: int, inner: nn.Module) -> None:
        super().__init__()
        self.input_shape, self.inner = (1, side, side), inner

    def forward(self, images: Tensor) -> Tensor:
        outputs: Tensor = self.inner(images)
        return outputs


class Lines(nn.Module):
    """Recurrent network that reads an image line by line."""

    def __init__(self, side: int, width: int) -> None:
        super().__init__()
        self.cells, self.head = nn.GRU(side, width, batch_first=True), nn.Linear(width, CLASSES)

    def forward(self, images: Tensor) -> Tensor:
        outputs: Tensor = self.head(self.cells(images.squeeze(1))[0][:, -1])
        return outputs


class Residual(nn.Module):
    """Basic block of a ResNet (He et al. 2016): two convolutions with batch norm, and a shortcut."""

    def __init__(self, inner: int, outer: int, stride: int) -> None:
        super().__init__()
        self.body = nn.Sequential(
            nn.Conv2d(inner, outer, 3, stride, 1, bias=False), nn.BatchNorm2d(outer), nn.ReLU(),
            nn.Conv2d(outer, outer, 3, 1, 1, bias=False), nn.BatchNorm2d(outer),
        )  # fmt: skip
        same = inner == outer and stride == 1
        shortcut = nn.Sequential(nn.Conv2d(inner, outer, 1, stride, bias=False), nn.BatchNorm2d(outer))
        self.shortcut = nn.Identity() if same else shortcut

    def forward(self, x: Tensor) -> Tensor:
        return torch.relu(self.body(x) + self.shortcut(x))


class Words(nn.Module):
    """Vision transformer (Dosovitskiy et al. 2021) of two layers; grey images as three channels."""

    def __init__(self, side: int) -> None:
        super().__init__()
        self.inner = VisionTransformer(side, side // 4, 2, 4, 32, 64, num_classes=CLASSES)
        nn.init.normal_(self.inner.heads.head.weight, std=0.02)  # zero in torchvision, as for fine-tuning

    def forward(self, images: Tensor) -> Tensor:
        outputs: Tensor = self.inner(images.expand(-1, 3, -1, -1))
        return outputs


def mlp(side: int, width: int, depth: int) -> nn.Module:
    """Return a perceptron with ``depth`` hidden layers."""
    sizes = [side * side, *[width] * depth]
    layers = [part for a, b in pairwise(sizes) for part in (nn.Linear(a, b), nn.ReLU())]
    return nn.Sequential(nn.Flatten(), *layers, nn.Linear(sizes[-1], CLASSES))


def cnn(side: int, norms: bool) -> nn.Module:
    """Return three convolutions, with batch norm or without."""
    parts: list[nn.Module] = []
    for inner, outer, stride in ((1, 16, 1), (16, 32, 2), (32, 32, 2)):
        parts += [nn.Conv2d(inner, outer, 3, stride, 1), *([nn.BatchNorm2d(outer)] if norms else []), nn.ReLU()]
    return nn.Sequential(*parts, nn.Flatten(), nn.Linear(32 * (-(-side // 4)) ** 2, CLASSES))


def resnet(side: int) -> nn.Module:
    """Return a ResNet-18 with 8 channels at first, and no pooling before its blocks."""
    widths = (8, 16, 32, 64)
    blocks = [
        Residual(widths[max(0, stage - (place == 0))] if stage else 8, width, 2 if stage and not place else 1)
        for stage, width in enumerate(widths)
        for place in range(2)
    ]
    stem = (nn.Conv2d(1, 8, 3, 1, 1, bias=False), nn.BatchNorm2d(8), nn.ReLU())
    return nn.Sequential(*stem, *blocks, nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(64, CLASSES))


NETWORKS: dict[str, Callable[[int], nn.Module]] = {
    "mlp_16x1": partial(mlp, width=16, depth=1),
    "mlp_128x2": partial(mlp, width=128, depth=2),
    "mlp_2048x1": partial(mlp, width=2048, depth=1),
    "mlp_64x12": partial(mlp, width=64, depth=12),
    "cnn": partial(cnn, norms=False),
    "cnn_batch_norm": partial(cnn, norms=True),
    "resnet_18_small": resnet,
    "vision_transformer": Words,
    "gru": partial(Lines, width=64),
    "ternary_cnn": lambda side: TernaryCNN((1, side, side), (16,) if side < 13 else (8, 16), CLASSES),
}


def network(name: str, side: int, seed: int) -> nn.Module:
    """Return a network with initial weights that depend on the seed alone."""
    with seeded(seed):
        return Image(side, NETWORKS[name](side))


def accuracy(name: str, way: str, asked: argparse.Namespace, folder: Path) -> tuple[float, int, float]:
    """Train a network for the given seconds; return its test accuracy, generations, and the seconds it took."""
    common = (*WAYS[way], *asked.overrides, f"task={asked.task}", f"seed={asked.seed}", "checkpoint.every=1000000")

    def trained(generations: int, tag: str, *more: str) -> neuro.Result:
        words = (*common, f"generations={generations}", f"evaluate.every={max(1, generations // 2)}", *more)
        return neuro.train(*words, model=network(name, asked.side, asked.seed), folder=folder / f"{name}-{way}-{tag}")

    trial = trained(TRIAL, "trial").metrics["seconds"]
    fit = max(TRIAL, int(asked.seconds / statistics.median(trial[1:])))
    run = trained(fit, "run", f"time_limit={asked.seconds}")
    return run.summary["test_accuracy"], int(run.summary["generations"]), float(run.metrics["elapsed_seconds"][-1])


def arguments() -> argparse.Namespace:
    """Parse the command line."""
    parser = argparse.ArgumentParser(description=str(__doc__).split("\n", 1)[0])
    parser.add_argument("--seconds", type=float, default=120.0, help="of each training")
    parser.add_argument("--task", default="digits", help="one of conf/task")
    parser.add_argument("--side", type=int, default=8, help="of the images, a multiple of 4")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--only", nargs="+", choices=NETWORKS, default=list(NETWORKS), metavar="NETWORK")
    parser.add_argument("--ways", nargs="+", choices=WAYS, default=list(WAYS), metavar="WAY")
    parser.add_argument("--out", type=Path, help="a CSV file, rewritten after every training")
    parser.add_argument(
        "--overrides", nargs="+", default=[], metavar="KEY=VALUE", help="of all trainings, such as task.root=DATA"
    )
    asked = parser.parse_args()
    if asked.seconds <= 0 or asked.side % 4 or asked.side < 8:
        parser.error("--seconds must be above 0, --side a multiple of 4 from 8 on")
    return asked


def row_of(name: str, way: str, asked: argparse.Namespace, folder: Path) -> dict[str, str]:
    """Return the row of the table, with the reason where a way cannot train the network."""
    size = sum(parameter.numel() for parameter in network(name, asked.side, asked.seed).parameters())
    row = {"network": name, "parameters": str(size), "way": way}
    try:
        reached, generations, took = accuracy(name, way, asked, folder)
    except UserError as error:
        return row | {"accuracy": "", "generations": "0", "seconds": "", "failure": str(error)}
    return row | {"accuracy": f"{reached:.4f}", "generations": str(generations), "seconds": f"{took:.1f}", "failure": ""}


def main() -> int:
    asked, rows = arguments(), []
    with tempfile.TemporaryDirectory() as folder:
        for name in asked.only:
            for way in asked.ways:
                rows.append(row_of(name, way, asked, Path(folder)))
                print("  ".join(rows[-1].values()), flush=True)
                if asked.out is not None:
                    write(asked.out, rows)
    return 0


def write(path: Path, rows: list[dict[str, str]]) -> None:
    """Write the table."""
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.open("w", newline="", encoding="utf-8") as file:
        table = csv.DictWriter(file, list(rows[0]), lineterminator="\n")
        table.writeheader()
        table.writerows(rows)


if __name__ == "__main__":
    try:
        sys.exit(main())
    except UserError as error:
        sys.exit(report(error))
