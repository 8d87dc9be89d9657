"""Cosine of neuro.ForwardGradient's estimate with the gradient by back-propagation, for each parameter, while a network trains.

    python scripts/gradient_in_training.py                              # needs timm, torchvision, transformers
    python scripts/gradient_in_training.py --only gru hf_albert --steps 1 20 --csv build/in_training.csv

Adam follows the gradient by back-propagation, and the estimate is made in each step, on a batch of its own: its predictions meet
parameters that move, as in a training. A row has a network, the step, the cosine of all parameters in one, how many of them have
a cosine under 0.999, then the lowest ones. Parameters with less than ``--least`` of the gradient's length are left out, such as
biases in front of a batch norm. Networks and data are those of twenty_networks.py, and recurrent and normed ones on the digits.
"""

import argparse
import csv
import runpy
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn

import neuro_cli as neuro

TWENTY = runpy.run_path(str(Path(__file__).with_name("twenty_networks.py")))
RATE = 1e-3
SHOWN = 3  # lowest cosines of a row


class Recurrent(nn.Module):
    """A recurrent network that reads the rows of the digits (B, 64); ``cell``: a cell that is called in a loop."""

    def __init__(self, kind: str, layers: int = 1, cell: bool = False) -> None:
        super().__init__()
        self._cell = cell
        self.body = getattr(nn, kind)(8, 32) if cell else getattr(nn, kind)(8, 32, layers, batch_first=True)
        self.head = nn.Linear(32, 10)

    def forward(self, x: Tensor) -> Tensor:
        rows = x.view(-1, 8, 8)
        if not self._cell:
            return self.head(self.body(rows)[0][:, -1])
        state: Any = None
        for place in range(8):
            state = self.body(rows[:, place], state)
        return self.head(state[0] if isinstance(state, tuple) else state)


class Tied(nn.Module):
    """Matrices that several calls share: slices of one parameter, and a block that runs three times."""

    def __init__(self) -> None:
        super().__init__()
        self.first, self.body, self.last = nn.Linear(64, 32), nn.Linear(32, 32), nn.Linear(32, 10)
        self.stack = nn.Parameter(torch.randn(3, 32, 32) / 32**0.5)

    def forward(self, x: Tensor) -> Tensor:
        x = torch.tanh(self.first(x))
        for _ in range(3):
            x = x + torch.tanh(self.body(x))
        for matrix in self.stack:
            x = x + torch.tanh(x @ matrix)
        return self.last(x)


class Heads(nn.Module):
    """Attention of other queries than keys and values, whose matrices are slices of one parameter, then one of sequences."""

    def __init__(self) -> None:
        super().__init__()
        self.first, self.query = nn.Linear(8, 32), nn.Linear(8, 32)
        self.mixed, self.along, self.last = (
            nn.MultiheadAttention(32, 4, batch_first=True),
            nn.Conv1d(8, 8, 3, padding=1),
            nn.Linear(32, 10),
        )

    def forward(self, x: Tensor) -> Tensor:
        rows = x.view(-1, 8, 8)
        keys = torch.tanh(self.first(rows))
        x = self.mixed(torch.tanh(self.query(rows)), keys, keys + keys.mean(1, keepdim=True), need_weights=False)[0]
        return self.last(F.gelu(self.along(x)).mean(1))


class Sums(nn.Module):
    """Projections of heads by einsum, then a matrix for each head by matmul, and one that mixes places from the left."""

    def __init__(self) -> None:
        super().__init__()
        self.first, self.last = nn.Linear(8, 32), nn.Linear(32, 10)
        self.heads, self.own, self.places = (nn.Parameter(torch.randn(shape) / 6) for shape in ((32, 4, 8), (4, 8, 8), (8, 8)))

    def forward(self, x: Tensor) -> Tensor:
        x = torch.tanh(self.first(x.view(-1, 8, 8)))
        heads = torch.tanh(torch.einsum("btd,dhe->bhte", x, self.heads))
        heads = heads + torch.tanh(heads @ self.own)
        return self.last((x + torch.tanh(self.places @ heads.transpose(1, 2).flatten(2))).mean(1))


def decoder() -> nn.Module:
    """Return convolutions of sequences, then transposed ones of images."""
    along = (
        nn.Conv1d(8, 16, 3, padding=1),
        nn.Tanh(),
        nn.Conv1d(16, 32, 3, 2),
        nn.Tanh(),
        nn.Flatten(),
        nn.Linear(96, 128),
        nn.Tanh(),
    )
    up = (nn.ConvTranspose2d(8, 16, 4, 2, 1), nn.Tanh(), nn.ConvTranspose2d(16, 8, 3, 2), nn.Tanh(), nn.Conv2d(8, 4, 3, 2))
    return nn.Sequential(nn.Unflatten(1, (8, 8)), *along, nn.Unflatten(1, (8, 4, 4)), *up, nn.Flatten(), nn.Linear(256, 10))


def normed_weights() -> nn.Module:
    """Return convolutions and a linear layer whose weights have lengths of their own, with group norm and PReLU."""
    norm = torch.nn.utils.parametrizations.weight_norm
    first, second = norm(nn.Conv2d(3, 8, 3, 2)), norm(nn.Conv2d(8, 16, 3, 2))
    return nn.Sequential(
        first, nn.PReLU(8), second, nn.GroupNorm(4, 16), nn.ReLU(), nn.Flatten(), norm(nn.Linear(784, 32)), nn.ReLU(),
        nn.Linear(32, 10),
    )  # fmt: skip


def cnn(channels: int) -> Callable[[], nn.Module]:
    """Return a function that creates three convolutions with few channels on 32x32 images, and batch norm."""

    def make() -> nn.Module:
        sizes = (3, channels, channels, 2 * channels)
        parts = [
            part
            for i in range(3)
            for part in (nn.Conv2d(sizes[i], sizes[i + 1], 3, 1 + i // 2, 1), nn.BatchNorm2d(sizes[i + 1]), nn.ReLU())
        ]
        return nn.Sequential(*parts, nn.AdaptiveAvgPool2d(4), nn.Flatten(), nn.Linear(32 * channels, 10))

    return make


VECTORS: dict[str, Callable[[], nn.Module]] = {
    "gru": lambda: Recurrent("GRU"), "lstm": lambda: Recurrent("LSTM", 2), "gru_cell": lambda: Recurrent("GRUCell", cell=True),
    "lstm_cell": lambda: Recurrent("LSTMCell", cell=True), "tied": Tied, "heads": Heads, "sums": Sums, "decoder": decoder,
}  # fmt: skip
IMAGES: dict[str, Callable[[], nn.Module]] = {"weight_norm": normed_weights, "cnn_8": cnn(8), "cnn_16": cnn(16)}
NAMES = (
    "hf_albert", "hf_roberta", "hf_llama", "hf_gpt2", "timm_vit", "timm_mixer", "timm_convnext", "timm_mobilenet_v2",
    "timm_resnet", "tv_mobilenet_v3",
)  # fmt: skip
NETWORKS = {**VECTORS, **IMAGES, **{name: TWENTY["NETWORKS"][name] for name in NAMES}}


def data(name: str) -> tuple[Tensor, Tensor]:
    """Return all inputs of a network's kind, and the classes."""
    if name not in VECTORS:
        inputs, targets = TWENTY["data"]("timm_vit" if name in IMAGES else name)
        # both ways get images in the order that an estimate gives its passes: torch's batch norm rounds otherwise in another
        return inputs.contiguous(memory_format=torch.channels_last) if inputs.dim() == 4 else inputs, targets
    inputs, targets = TWENTY["data"]("hf_bert")
    return inputs.float() / 16, targets


def gradients_of(network: nn.Module) -> dict[str, Tensor]:
    """Return copies of the gradients, and clear them."""
    found = {name: parameter.grad.flatten() for name, parameter in network.named_parameters() if parameter.grad is not None}
    network.zero_grad()
    return found


def rows_of(name: str, steps: list[int], batch_size: int, least: float, options: dict[str, Any]) -> list[list[str]]:
    """Return a row for each of ``steps``, counted from 1."""
    torch.manual_seed(1)
    network = NETWORKS[name]()
    for part in network.modules():
        if isinstance(part, nn.Dropout):
            part.p = 0.0
    inputs, targets = data(name)
    order = torch.randperm(len(inputs) - TWENTY["TEST"])
    optimizer = torch.optim.Adam(network.parameters(), lr=RATE)
    estimate, rows, used = neuro.ForwardGradient(network, threads=1, **options), [], 0.0
    for step in range(1, max(steps) + 1):
        chosen = order[torch.arange((step - 1) * batch_size, step * batch_size) % len(order)]
        start = time.process_time()
        estimate.backward(TWENTY["losses"], inputs[chosen], targets[chosen])
        used += time.process_time() - start
        made = gradients_of(network)
        TWENTY["losses"](network(inputs[chosen]), targets[chosen]).mean().backward()
        optimizer.step()
        right = gradients_of(network)
        if step not in steps:
            continue
        length = torch.cat(list(right.values())).norm()
        cosines = {
            each: float(F.cosine_similarity(made[each].double(), gradient.double(), dim=0))
            for each, gradient in right.items()
            if gradient.norm() >= least * length
        }
        together = F.cosine_similarity(
            torch.cat([made[each] for each in right]).double(), torch.cat(list(right.values())).double(), dim=0
        )
        worst = sorted(cosines, key=cosines.__getitem__)[:SHOWN]
        below = sum(cosine < 0.999 for cosine in cosines.values())
        lowest = ", ".join(f"{each} {cosines[each]:.5f}" for each in worst)
        rows.append([name, str(step), f"{float(together):.6f}", f"{below} of {len(cosines)}", lowest, f"{used:.1f}"])
    return rows


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only", nargs="+", choices=NETWORKS, default=list(NETWORKS), help="networks (all)")
    parser.add_argument("--steps", type=int, nargs="+", default=[1, 20], help="steps that are shown, rising (1 20)")
    parser.add_argument("--batch-size", type=int, default=32, help="examples in a step (32)")
    parser.add_argument(
        "--least", type=float, default=1e-4, help="least length of a parameter's gradient over that of all (1e-4)"
    )
    parser.add_argument("--correction", default="never", help="correction of the estimate (never: predictions alone)")
    parser.add_argument("--csv", type=Path, help="file to which rows are added")
    typed = parser.parse_args()
    torch.set_num_threads(1)
    for name in typed.only:
        rows = rows_of(name, typed.steps, typed.batch_size, typed.least, {"correction": typed.correction})
        for row in rows:
            print(" | ".join(row), flush=True)
        if typed.csv is not None:
            typed.csv.parent.mkdir(parents=True, exist_ok=True)
            with typed.csv.open("a", newline="") as file:
                csv.writer(file).writerows(rows)


if __name__ == "__main__":
    main()
