"""Cosine of neuro.ForwardGradient's estimate with the gradient by back-propagation, layer by layer, of deep networks.

    python scripts/gradient_by_layer.py    # residual networks and a vision transformer at 32x32, a char GPT
    python scripts/gradient_by_layer.py --only resnet18 --draws 1 8 --steps 0 200 --csv build/by_layer.csv

The networks are torchvision's and this package's, the examples random: each class has an image of its own below noise, and a
character follows from the one before. ``--steps``: the estimates are compared after so many steps of Adam by back-propagation. A
column is a way and its draws. Predictions learn from the first call of an estimator, so each column makes ``--warm`` estimates
before the one that is compared. An estimate that changes a buffer, such as a batch norm's statistics, ends the script.
"""

import argparse
import csv
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import torch
import torch.nn.functional as F
from torch import Tensor, nn

import neuro_cli as neuro
from neuro_cli.model.char_gpt import CharGPT

WAYS: dict[str, dict[str, Any]] = {
    "alone": {},
    "never": {"correction": "never"},
    "always": {"correction": "always"},
    "plain": {"control_variates": False},
}
RATE = 1e-3


class Case(NamedTuple):
    """Network with a batch and a loss of each example; ``parts``: number of parts of a parameter's name that select a row."""

    network: nn.Module
    inputs: Tensor
    targets: Tensor
    parts: int


def losses(outputs: Tensor, targets: Tensor) -> Tensor:
    """Return the cross-entropy of each example, or of each token."""
    return F.cross_entropy(outputs.flatten(0, -2), targets.flatten(), reduction="none").view(targets.shape)


def images(examples: int) -> tuple[Tensor, Tensor]:
    """Return images of 3x32x32 and their classes, which noise half hides."""
    targets = torch.randint(10, (examples,))
    return torch.randn(10, 3, 32, 32)[targets] + torch.randn(examples, 3, 32, 32), targets


def resnet18(examples: int) -> Case:
    """Return torchvision's ResNet-18 with the usual first layers for 32x32."""
    from torchvision.models import resnet18

    network = resnet18(num_classes=10)
    network.conv1, network.maxpool = nn.Conv2d(3, 64, 3, 1, 1, bias=False), nn.Identity()
    return Case(network, *images(examples), 2)


def vit(examples: int) -> Case:
    """Return torchvision's vision transformer, 12 blocks of 64 at 32x32 with patches of 8."""
    from torchvision.models import VisionTransformer

    network = VisionTransformer(32, 8, 12, 4, 64, 256, num_classes=10)
    nn.init.normal_(network.heads.head.weight, std=0.02)  # zeros would leave no gradient to the layers in front
    return Case(network, *images(examples), 3)


def char_gpt(examples: int) -> Case:
    """Return the package's character model with 6 blocks of 64."""
    tokens = torch.randint(65, (examples, 33))
    for place in range(1, 33):  # most characters follow from the one before
        tokens[:, place] = torch.where(torch.rand(examples) < 0.8, (7 * tokens[:, place - 1] + 3) % 65, tokens[:, place])
    return Case(CharGPT(65, 32, 64, depth=6), tokens[:, :-1], tokens[:, 1:], 2)


class Block(nn.Module):
    """A residual block as torchvision's, with in-place sums and ReLUs."""

    def __init__(self, channels: int) -> None:
        super().__init__()
        first, second = (nn.Conv2d(channels, channels, 3, 1, 1, bias=False) for _ in range(2))
        self.body = nn.Sequential(first, nn.BatchNorm2d(channels), nn.ReLU(True), second, nn.BatchNorm2d(channels))

    def forward(self, x: Tensor) -> Tensor:
        outputs = self.body(x)
        outputs += x
        return F.relu(outputs, inplace=True)


def residual(examples: int) -> Case:
    """Return two residual blocks of 16 channels: ResNet-18's parts, without its width."""
    first = (nn.Conv2d(3, 16, 3, 1, 1, bias=False), nn.BatchNorm2d(16), nn.ReLU(True))
    last = (nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(16, 10))
    return Case(nn.Sequential(*first, Block(16), Block(16), *last), *images(examples), 1)


CASES: dict[str, Callable[[int], Case]] = {"resnet18": resnet18, "residual": residual, "vit": vit, "char_gpt": char_gpt}


def by_part(gradients: dict[str, Tensor], parts: int) -> dict[str, Tensor]:
    """Join the gradients of parameters whose names have the same first ``parts`` parts."""
    joined: dict[str, list[Tensor]] = {}
    for name, gradient in gradients.items():
        joined.setdefault(".".join(name.split(".")[:-1][:parts]) or name, []).append(gradient.flatten())
    return {name: torch.cat(rows) for name, rows in joined.items()}


def gradients_of(network: nn.Module) -> dict[str, Tensor]:
    """Return copies of the gradients, and clear them."""
    found = {name: parameter.grad.clone() for name, parameter in network.named_parameters() if parameter.grad is not None}
    network.zero_grad()
    return found


def true_gradients(case: Case) -> tuple[float, dict[str, Tensor]]:
    """Return the loss, and the gradients by back-propagation; statistics of batch norm stay as they are."""
    before = {name: buffer.clone() for name, buffer in case.network.named_buffers()}
    loss = losses(case.network(case.inputs), case.targets).mean()
    loss.backward()
    for name, buffer in case.network.named_buffers():
        buffer.copy_(before[name])
    return loss.item(), gradients_of(case.network)


def train(case: Case, steps: int) -> None:
    """Take steps of Adam by back-propagation."""
    optimizer = torch.optim.Adam(case.network.parameters(), lr=RATE)
    for _ in range(steps):
        optimizer.zero_grad()
        losses(case.network(case.inputs), case.targets).mean().backward()
        optimizer.step()
    case.network.zero_grad()


def estimated(case: Case, warm: int, options: dict[str, Any]) -> dict[str, Tensor]:
    """Return an estimate's gradients, after ``warm`` others. Raises RuntimeError where a buffer has changed."""
    before = {name: buffer.clone() for name, buffer in case.network.named_buffers()}
    estimate = neuro.ForwardGradient(case.network, threads=1, **options)
    for _ in range(warm + 1):
        case.network.zero_grad()
        estimate.backward(losses, case.inputs, case.targets)
    changed = [name for name, buffer in case.network.named_buffers() if not torch.equal(buffer, before[name])]
    if changed:
        raise RuntimeError(f"an estimate changed {', '.join(changed)}")
    return gradients_of(case.network)


def with_all(gradients: dict[str, Tensor], parts: int) -> dict[str, Tensor]:
    """Return the gradients of parts, and of all together."""
    return by_part(gradients, parts) | {"all": torch.cat([gradient.flatten() for gradient in gradients.values()])}


def table(name: str, case: Case, steps: int, draws: list[int], ways: list[str], warm: int) -> list[dict[str, str]]:
    """Return a row for each part and one for all, with the cosine of each way."""
    loss, gradients = true_gradients(case)
    right = with_all(gradients, case.parts)
    rows = [
        {"network": name, "steps": str(steps), "loss": f"{loss:.2f}", "layer": part, "norm": f"{float(gradient.norm()):.2g}"}
        for part, gradient in right.items()
    ]
    for way in ways:
        for count in draws:
            start = time.process_time()
            made = with_all(estimated(case, 0 if way == "plain" else warm, {"draws": count, **WAYS[way]}), case.parts)
            for row in rows:
                row[f"{way} {count}"] = f"{float(F.cosine_similarity(made[row['layer']], right[row['layer']], dim=0)):.3f}"
            print(f"{name}, {steps} steps, {way} {count}: {time.process_time() - start:.0f} s of the processor", flush=True)
    return rows


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only", nargs="+", choices=CASES, default=list(CASES), help="networks (all)")
    parser.add_argument("--examples", type=int, default=16, help="examples in the batch (16)")
    parser.add_argument("--draws", type=int, nargs="+", default=[1, 2, 8], help="draws of an estimate (1 2 8)")
    parser.add_argument("--steps", type=int, nargs="+", default=[0, 200], help="steps of training before it, rising (0 200)")
    parser.add_argument("--warm", type=int, default=8, help="estimates from which predictions learn before it (8)")
    parser.add_argument("--ways", nargs="+", choices=WAYS, default=list(WAYS), help="ways of the estimator (all)")
    parser.add_argument("--csv", type=Path, help="file for the table")
    typed = parser.parse_args()
    torch.set_num_threads(1)
    rows = []
    for name in typed.only:
        torch.manual_seed(0)
        case, taken = CASES[name](typed.examples), 0
        for steps in typed.steps:
            train(case, steps - taken)
            taken = steps
            rows += table(name, case, steps, typed.draws, typed.ways, typed.warm)
    print("\n".join(" | ".join(row.values()) for row in [dict(zip(rows[0], rows[0], strict=True)), *rows]))
    if typed.csv is not None:
        typed.csv.parent.mkdir(parents=True, exist_ok=True)
        with typed.csv.open("w", newline="") as file:
            writer = csv.DictWriter(file, rows[0])
            writer.writeheader()
            writer.writerows(rows)


if __name__ == "__main__":
    main()
