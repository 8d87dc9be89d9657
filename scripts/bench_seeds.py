"""Time of a search for several seeds in turn over that of neuro.run_seeds: pairs in one process, median and range.

python scripts/bench_seeds.py                    # a simulator in numpy, small networks in torch, the sphere
python scripts/bench_seeds.py --seeds 16 --repeats 11
"""

import argparse
import statistics
import time
from collections.abc import Callable

import numpy as np
import torch

import neuro_cli as neuro

Function = Callable[[np.ndarray], np.ndarray]
GENERATIONS, MEMBERS = 60, 12


def pendulum(gains: np.ndarray) -> np.ndarray:
    """Return the costs (K,) of linear controllers (K, 3) that hold a pendulum up for 200 steps, all at once."""
    angle, speed, cost = np.full(len(gains), 0.5), np.zeros(len(gains)), np.zeros(len(gains))
    for _ in range(200):
        torque = np.clip(gains[:, 0] * np.sin(angle) + gains[:, 1] * speed + gains[:, 2], -2, 2)
        speed = np.clip(speed + 0.05 * (15 * np.sin(angle) + 3 * torque), -8, 8)
        angle = angle + 0.05 * speed
        cost += angle**2 + 0.1 * speed**2 + 0.001 * torque**2
    return cost


def networks() -> Function:
    """Return the errors (K,) of networks 4-8-1 (K, 49) on 64 examples, by torch's batched products."""
    inputs = torch.randn(64, 4, generator=torch.Generator().manual_seed(0), dtype=torch.float64)
    wanted = inputs.prod(1)

    def errors(candidates: np.ndarray) -> np.ndarray:
        first, shift, last, bias = torch.from_numpy(candidates).split([32, 8, 8, 1], 1)
        hidden = torch.tanh(inputs @ first.view(-1, 4, 8) + shift[:, None])
        return ((hidden @ last[..., None])[..., 0] + bias - wanted).square().mean(1).numpy()

    return errors


def sphere(candidates: np.ndarray) -> np.ndarray:
    return (candidates**2).sum(1)


def search(function: Function, size: int, seeds: list[int]) -> list[neuro.AskTell]:
    rules = neuro.Stopping(generations=GENERATIONS)
    return neuro.run_seeds(function, seeds, np.full(size, 0.5), algo="cma_es", population=MEMBERS, minimise=True, stopping=rules)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seeds", type=int, default=8, help="seeds (8)")
    parser.add_argument("--repeats", type=int, default=7, help="pairs (7)")
    typed = parser.parse_args()
    seeds = list(range(1, typed.seeds + 1))
    cases: dict[str, tuple[Function, int]] = {"pendulum": (pendulum, 3), "networks": (networks(), 49), "sphere": (sphere, 10)}
    for name, (function, size) in cases.items():
        ratios = []
        for _ in range(typed.repeats):
            begin = time.perf_counter()
            alone = [one for seed in seeds for one in search(function, size, [seed])]
            middle = time.perf_counter()
            together = search(function, size, seeds)
            ratios.append((middle - begin) / (time.perf_counter() - middle))
            assert all(np.array_equal(a.centre, b.centre) for a, b in zip(alone, together, strict=True))
        print(f"{name}: {statistics.median(ratios):.2f} ({min(ratios):.2f} to {max(ratios):.2f})", flush=True)


if __name__ == "__main__":
    main()
