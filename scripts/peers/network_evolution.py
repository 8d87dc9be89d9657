"""A generation of ``neuro.Evolution`` on a network of networks.py, or on two large layers, for each line on standard input.

python network_evolution.py SETTING_AS_JSON; prints one JSON object a generation. Large layers (``"width"``) also run as their own
reference: plain inference of all members' rows in one batch (``"inference": true``). ``"update": true``: the update alone.
``"plain": true``: a generation by torch alone, ``torch.vmap`` over the members, in place of neuro's.
"""

import json
import sys
import time
from collections.abc import Callable
from typing import Any

import torch
import torch.nn.functional as F
from networks import NETWORKS, Layer
from torch import Tensor, nn
from torch.func import functional_call
from torch.nn.utils import parameters_to_vector

import neuro_cli as neuro
from neuro_cli.model.char_gpt import CharGPT
from neuro_cli.run_folder.summary import peak_memory_bytes

SIGMA = 0.05
LEARNING_RATE = 1e-9  # steps of 0.02 make all members perfect within 40 generations, and an update of equal scores is free


class Mean(nn.Module):
    """Mean over all places of (B, C, H, W)."""

    def forward(self, x: Tensor) -> Tensor:
        return x.mean((2, 3))


class LastState(nn.GRU):
    """Last state of a GRU on (B, T, inputs)."""

    def forward(self, x: Tensor) -> Tensor:  # type: ignore[override]
        states: Tensor = super().forward(x)[0]
        return states[:, -1]


def layer(kind: str, *sizes: int) -> nn.Module:
    """Return the module of a layer."""
    if kind == "conv":
        inputs, outputs, kernel, stride, groups = sizes
        return nn.Conv2d(inputs, outputs, kernel, stride, kernel // 2, groups=groups)
    if kind == "conv1d":
        return nn.Conv1d(*sizes, padding=sizes[2] // 2)
    if kind == "gru":
        return LastState(*sizes, batch_first=True)
    simple = {"linear": nn.Linear, "norm": nn.LayerNorm, "relu": nn.ReLU, "tanh": nn.Tanh, "flatten": nn.Flatten, "mean": Mean}
    return nn.MaxPool2d(2) if kind == "pool" else simple[kind](*sizes)


def sequential(layers: list[Layer]) -> nn.Module:
    return nn.Sequential(*(layer(*parts) for parts in layers))


def losses(member: nn.Module, inputs: Tensor, targets: Tensor) -> Tensor:
    """Return the negative cross-entropy of each example, over its tokens where it has several."""
    outputs = member(inputs)
    if outputs.dim() == 3:
        return -F.cross_entropy(outputs.transpose(1, 2), targets, reduction="none").mean(1)
    return -F.cross_entropy(outputs, targets, reduction="none")


def network_generation(setting: dict[str, Any]) -> Callable[[], object]:
    """Return a function that runs a generation of a network of NETWORKS."""
    network = NETWORKS[setting["network"]]
    if network.gpt is None:
        module = sequential(network.layers)
        inputs, targets = torch.randn(network.batch, *network.shape), torch.randint(0, network.classes, (network.batch,))
    else:
        sizes = network.gpt
        module = CharGPT(sizes["vocabulary"], network.shape[0], sizes["width"], sizes["depth"], sizes["heads"])
        inputs, targets = (torch.randint(0, sizes["vocabulary"], (network.batch, *network.shape)) for _ in range(2))
    module, inputs, targets = (part.to(setting["device"]) for part in (module, inputs, targets))
    if setting.get("plain"):
        return plain_generation(module, inputs, targets, network.population)
    evolution = neuro.Evolution(
        module, population=network.population, sigma=SIGMA, lr=LEARNING_RATE, optimizer=torch.optim.Adam,
        sampler=setting["sampler"], layout=setting["layout"], threads=setting["threads"],
    )  # fmt: skip
    return lambda: evolution.step(losses, inputs, targets)


def plain_generation(module: nn.Module, inputs: Tensor, targets: Tensor, population: int) -> Callable[[], object]:
    """Return a function that runs a generation as torch's documentation maps models: all members stacked, one vmap.

    Mirrored pairs, fitnesses normalised, Adam, as the Evolution.
    """
    names = [name for name, _ in module.named_parameters()]
    shapes = [parameter.shape for parameter in module.parameters()]
    sizes = [parameter.numel() for parameter in module.parameters()]
    centre = parameters_to_vector(module.parameters()).detach()
    optimizer = torch.optim.Adam([centre], lr=LEARNING_RATE)

    def member(vectors: Tensor) -> Tensor:
        parts = zip(names, vectors.split(sizes), shapes, strict=True)
        outputs = functional_call(module, {name: part.view(shape) for name, part, shape in parts}, (inputs,))
        return -F.cross_entropy(outputs, targets)

    def generation() -> None:
        with torch.no_grad():
            noise = torch.randn(population // 2, len(centre), device=centre.device)
            fitness = torch.vmap(member)(torch.cat([centre + SIGMA * noise, centre - SIGMA * noise]))
            plus, minus = ((fitness - fitness.mean()) / (fitness.std() + 1e-8)).chunk(2)
            centre.grad = -((plus - minus) @ noise) / (population * SIGMA)
        optimizer.step()

    return generation


def large(setting: dict[str, Any]) -> tuple[nn.Module, Tensor]:
    """Return two linear layers of ``width`` and inputs; a member has ``rows`` of them."""
    width, members = setting["width"], setting["members"] if setting["inference"] else 1
    with torch.device("meta"):
        module = nn.Sequential(nn.Linear(width, width, bias=False), nn.ReLU(), nn.Linear(width, width, bias=False))
    module = module.to(getattr(torch, setting["dtype"])).to_empty(device="cpu")
    for parameter in module.parameters():
        parameter.detach().normal_(0.0, width**-0.5)
    inputs = torch.randn(members * setting["rows"], width).to(getattr(torch, setting["dtype"]))
    return module.to(setting["device"]), inputs.to(setting["device"])


def large_generation(setting: dict[str, Any]) -> Callable[[], object]:
    """Return a function that runs a generation of large layers, or one forward pass of all members' rows."""
    module, inputs = large(setting)

    def inference() -> Tensor:
        with torch.no_grad():
            return module(inputs).float().square().mean(1)

    if setting["inference"]:
        return inference
    targets = torch.zeros(len(inputs), device=inputs.device)
    evolution = neuro.Evolution(
        module, population=setting["members"], sigma=0.001, lr=0.01, optimizer=torch.optim.SGD,
        sampler=setting["sampler"], threads=setting["threads"], shared_pass=True,
    )  # fmt: skip
    if setting["update"]:
        fitnesses = torch.arange(setting["members"])

        def update() -> None:
            evolution.ask()
            evolution.tell(fitnesses)

        return update
    return lambda: evolution.step(lambda member, x, _: -member(x).float().square().mean(1), inputs, targets)


def main() -> None:
    setting = json.loads(sys.argv[1])
    torch.set_num_threads(setting["threads"])
    torch.manual_seed(1)
    imports = peak_memory_bytes()
    generation = (network_generation if "network" in setting else large_generation)(setting)
    rounds = NETWORKS[setting["network"]].rounds if "network" in setting else 1
    for _ in sys.stdin:
        start, used = time.perf_counter(), time.process_time()
        for _ in range(rounds):
            generation()
        if setting["device"] == "cuda":
            torch.cuda.synchronize()
        row = {"seconds": (time.perf_counter() - start) / rounds, "processor_seconds": (time.process_time() - used) / rounds}
        print(json.dumps(row | {"peak_memory_bytes": peak_memory_bytes() - imports}), flush=True)


if __name__ == "__main__":
    main()
