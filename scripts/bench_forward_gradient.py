"""Cost of an estimate of neuro.ForwardGradient: its time over that of a forward pass, or its peak memory by depth.

    python scripts/bench_forward_gradient.py                          # processor time, one thread, in pairs of one process
    python scripts/bench_forward_gradient.py --memory --depths 4 8 20   # torch's own allocations in a step, MiB

Examples are random and networks untrained. The forward pass has no graph. Medians, and quartiles, of the pairs.
"""

import argparse
import statistics
import time
from collections.abc import Callable
from typing import Any, NamedTuple

import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch.profiler import ProfilerActivity, profile

import neuro_cli as neuro
from neuro_cli.model.char_gpt import CharGPT

WAYS: dict[str, dict[str, Any]] = {
    "plain, 1 draw": {"draws": 1, "control_variates": False},
    "correction=always, 1 draw": {"draws": 1, "correction": "always"},
    "defaults, 2 draws": {"draws": 2},
}
MIB = 2**20
WARM = 6.0  # seconds of estimates before the timed ones, in which compiled loops load


class Case(NamedTuple):
    """Network with a batch, and the number of timed pairs."""

    network: nn.Module
    inputs: Tensor
    targets: Tensor
    pairs: int


def losses(outputs: Tensor, targets: Tensor) -> Tensor:
    """Return the cross-entropy of each example, or of each token."""
    return F.cross_entropy(outputs.flatten(0, -2), targets.flatten(), reduction="none").view(targets.shape)


def mlp(width: int, depth: int, inputs: int) -> nn.Module:
    """Return ``depth`` hidden layers of ``width`` with ReLU, and ten outputs."""
    hidden = [part for i in range(depth) for part in (nn.Linear(width if i else inputs, width), nn.ReLU())]
    return nn.Sequential(nn.Flatten(), *hidden, nn.Linear(width, 10))


def cases() -> dict[str, Case]:
    """Return the networks that are timed."""
    images, labels = torch.randn(128, 1, 28, 28), torch.randint(10, (128,))
    first, second = nn.Conv2d(1, 16, 5, stride=2), nn.Conv2d(16, 32, 5, stride=2)
    cnn = nn.Sequential(first, nn.ReLU(), second, nn.ReLU(), nn.Flatten(), nn.Linear(512, 10))
    tokens = [torch.randint(65, (32, 64)) for _ in range(2)]
    return {
        "MLP 784-256-256-10": Case(mlp(256, 2, 784), images, labels, 15),
        "two convolutions": Case(cnn, images, labels, 15),
        "GPT, 2 blocks of 64": Case(CharGPT(65, 64, 64), *tokens, 6),
    }


def passes(case: Case) -> tuple[Callable[[], object], Callable[[], object]]:
    """Return a forward pass without a graph, and a step of back-propagation."""

    def forward() -> None:
        with torch.no_grad():
            losses(case.network(case.inputs), case.targets).mean()

    def backward() -> None:
        case.network.zero_grad()
        losses(case.network(case.inputs), case.targets).mean().backward()

    return forward, backward


def estimator(case: Case, options: dict[str, Any]) -> Callable[[], object]:
    """Return a function that makes an estimate."""
    estimate = neuro.ForwardGradient(case.network, threads=1, **options)

    def step() -> None:
        case.network.zero_grad()
        estimate.backward(losses, case.inputs, case.targets)

    return step


def seconds(function: Callable[[], object]) -> float:
    """Return the processor time of a call."""
    start = time.process_time()
    function()
    return time.process_time() - start


def show_times() -> None:
    """Print the ratios to a forward pass."""
    for name, case in cases().items():
        forward, backward = passes(case)
        for way, options in WAYS.items():
            step = estimator(case, options)
            warm = time.perf_counter() + WARM
            while time.perf_counter() < warm:
                step()
            forward(), backward()
            rows = [(seconds(step), seconds(backward), min(seconds(forward) for _ in range(3))) for _ in range(case.pairs)]
            low, middle, high = statistics.quantiles([ours / one for ours, _, one in rows], n=4)
            back = statistics.median(ours / one for _, ours, one in rows)
            print(
                f"{name}, {way}: {middle:.1f} ({low:.1f} to {high:.1f}) forward passes; back-propagation {back:.1f}", flush=True
            )


def peak(function: Callable[[], object]) -> float:
    """Return the peak of torch's allocations in a call, MiB beyond what lives before it."""
    function()
    with profile(activities=[ProfilerActivity.CPU], profile_memory=True) as record:
        function()
    events = [event for event in record.profiler.kineto_results.events() if event.name() == "[memory]"]
    present = most = 0
    for event in sorted(events, key=lambda event: event.start_ns()):
        present += event.nbytes()
        most = max(most, present)
    return most / MIB


def show_memory(depths: list[int]) -> None:
    """Print the peaks of MLPs of width 256 on 1,024 examples."""
    for depth in depths:
        case = Case(mlp(256, depth, 256), torch.randn(1024, 256), torch.randint(10, (1024,)), 1)
        work = dict(zip(("forward", "back-propagation"), passes(case), strict=True))
        work |= {way.partition(",")[0]: estimator(case, options | {"draws": 2}) for way, options in WAYS.items()}
        for warm in work.values():
            warm()
        print(f"depth {depth}: " + "; ".join(f"{name} {peak(step):.1f} MiB" for name, step in work.items()), flush=True)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--memory", action="store_true", help="peaks of memory in place of times")
    parser.add_argument("--depths", type=int, nargs="+", default=[4, 8, 20], help="hidden layers, with --memory (4 8 20)")
    typed = parser.parse_args()
    torch.manual_seed(0)
    torch.set_num_threads(1)
    if typed.memory:
        show_memory(typed.depths)
    else:
        show_times()


if __name__ == "__main__":
    main()
