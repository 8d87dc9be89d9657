"""Sums over directions by neuro's loops of one order over the matrix product of torch, in pairs of one process.

    OMP_NUM_THREADS=1 python scripts/bench_sums.py

Legend: D directions, O rows, I inputs.
"""

import statistics
import time
from collections.abc import Callable

import torch

from neuro_cli.core.sums import Vectors, add_outer_sum, add_sign_sum

SHAPES = ((8, 256, 8192), (32, 256, 2048), (128, 256, 512), (128, 256, 784), (256, 64, 64), (512, 256, 2048))
PAIRS, LEAST = 9, 0.02  # pairs for each shape; seconds of a measurement


def seconds(call: Callable[[], object], times: int) -> float:
    """Return the seconds of one of ``times`` calls."""
    start = time.perf_counter()
    for _ in range(times):
        call()
    return (time.perf_counter() - start) / times


def ratios(ours: Callable[[], object], theirs: Callable[[], object]) -> list[float]:
    """Return the seconds of ``ours`` over those of ``theirs``, a ratio for each pair."""
    ours(), theirs()
    times = max(1, int(LEAST / seconds(theirs, 3)))
    return [seconds(ours, times) / seconds(theirs, times) for _ in range(PAIRS)]


def main() -> None:
    torch.set_num_threads(1)
    print("| D x I (O) | outer products | signs |\n|---|---|---|")
    for directions, rows, inputs in SHAPES:
        a, b, weights = torch.randn(directions, rows), torch.randn(directions, inputs), torch.randn(directions)
        out = torch.zeros(rows, inputs)
        words = [torch.randint(0, 2**31, (directions, -(-size // 32))).to(torch.uint32) for size in (rows, inputs)]
        outer = ratios(
            lambda out=out, a=a, b=b, weights=weights: add_outer_sum(Vectors(a), Vectors(b), 1, weights, out),
            lambda out=out, a=a, b=b, weights=weights: out.addmm_((a * weights[:, None]).T, b),
        )
        signs = ratios(
            lambda out=out, words=words, weights=weights: add_sign_sum(*words, weights, out),
            lambda out=out, a=a, b=b, weights=weights: out.addmm_((a * weights[:, None]).T, b),
        )
        cells = (f"{statistics.median(each):.2f} ({min(each):.2f} to {max(each):.2f})" for each in (outer, signs))
        print(f"| {directions} x {inputs} ({rows}) | {' | '.join(cells)} |", flush=True)


if __name__ == "__main__":
    main()
