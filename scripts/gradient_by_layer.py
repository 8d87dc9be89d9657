"""Cosine of neuro.ForwardGradient's estimate with the gradient by back-propagation, layer by layer, of deep networks.

    python scripts/gradient_by_layer.py                                # ResNet-18 and a vision transformer at 32x32, a char GPT
    python scripts/gradient_by_layer.py --only resnet18 --estimates 8 --csv build/by_layer.csv

Networks are untrained, examples random; the columns are ways of the estimator. An estimate takes the passes of one step of
training; ``--estimates`` averages that many, and predictions learn from them. Parameters do not change.
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
    "defaults": {"draws": 1},
    "always": {"draws": 1, "correction": "always"},
    "plain": {"draws": 1, "control_variates": False},
}


class Case(NamedTuple):
    """Network with a batch and a loss of each example; ``parts``: number of parts of a parameter's name that select a row."""

    network: nn.Module
    inputs: Tensor
    targets: Tensor
    parts: int


def losses(outputs: Tensor, targets: Tensor) -> Tensor:
    """Return the cross-entropy of each example, or of each token."""
    return F.cross_entropy(outputs.flatten(0, -2), targets.flatten(), reduction="none").view(targets.shape)


def resnet18(examples: int) -> Case:
    """Return torchvision's ResNet-18 with the usual first layers for 32x32."""
    from torchvision.models import resnet18

    network = resnet18(num_classes=10)
    network.conv1, network.maxpool = nn.Conv2d(3, 64, 3, 1, 1, bias=False), nn.Identity()
    return Case(network, torch.randn(examples, 3, 32, 32), torch.randint(10, (examples,)), 2)


def vit(examples: int) -> Case:
    """Return torchvision's vision transformer, 12 blocks of 64 at 32x32 with patches of 8."""
    from torchvision.models import VisionTransformer

    network = VisionTransformer(32, 8, 12, 4, 64, 256, num_classes=10)
    nn.init.normal_(network.heads.head.weight, std=0.02)  # zeros would leave no gradient to the layers in front
    return Case(network, torch.randn(examples, 3, 32, 32), torch.randint(10, (examples,)), 3)


def char_gpt(examples: int) -> Case:
    """Return the package's character model with 6 blocks of 64."""
    return Case(CharGPT(65, 32, 64, depth=6), torch.randint(65, (examples, 32)), torch.randint(65, (examples, 32)), 2)


CASES: dict[str, Callable[[int], Case]] = {"resnet18": resnet18, "vit": vit, "char_gpt": char_gpt}


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


def true_gradients(case: Case) -> dict[str, Tensor]:
    """Return the gradients by back-propagation; statistics of batch norm stay as they are."""
    before = {name: buffer.clone() for name, buffer in case.network.named_buffers()}
    losses(case.network(case.inputs), case.targets).mean().backward()
    for name, buffer in case.network.named_buffers():
        buffer.copy_(before[name])
    return gradients_of(case.network)


def table(name: str, case: Case, estimates: int, ways: list[str]) -> list[dict[str, str]]:
    """Return a row for each part and one for all, with the cosine of each way."""
    right = by_part(true_gradients(case), case.parts) | {"all": torch.cat([g.flatten() for g in true_gradients(case).values()])}
    rows = [{"network": name, "layer": part, "norm": f"{float(gradient.norm()):.2g}"} for part, gradient in right.items()]
    for way in ways:
        start = time.process_time()
        estimate = neuro.ForwardGradient(case.network, threads=1, **WAYS[way])
        for _ in range(estimates):
            estimate.backward(losses, case.inputs, case.targets)
        found = gradients_of(case.network)
        made = by_part(found, case.parts) | {"all": torch.cat([gradient.flatten() for gradient in found.values()])}
        for row in rows:
            row[way] = f"{float(F.cosine_similarity(made[row['layer']], right[row['layer']], dim=0)):.3f}"
        print(f"{name}, {way}: {time.process_time() - start:.0f} s of the processor", flush=True)
    return rows


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only", nargs="+", choices=CASES, default=list(CASES), help="networks (all)")
    parser.add_argument("--examples", type=int, default=16, help="examples in the batch (16)")
    parser.add_argument("--estimates", type=int, default=1, help="estimates that are averaged (1)")
    parser.add_argument("--ways", nargs="+", choices=WAYS, default=list(WAYS), help="ways of the estimator (all)")
    parser.add_argument("--csv", type=Path, help="file for the table")
    typed = parser.parse_args()
    torch.set_num_threads(1)
    rows = []
    for name in typed.only:
        torch.manual_seed(0)
        rows += table(name, CASES[name](typed.examples), typed.estimates, typed.ways)
    print("\n".join(" | ".join(row.values()) for row in [dict(zip(rows[0], rows[0], strict=True)), *rows]))
    if typed.csv is not None:
        typed.csv.parent.mkdir(parents=True, exist_ok=True)
        with typed.csv.open("w", newline="") as file:
            writer = csv.DictWriter(file, rows[0])
            writer.writeheader()
            writer.writerows(rows)


if __name__ == "__main__":
    main()
