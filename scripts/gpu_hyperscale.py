"""Low rank on a GPU against HyperscaleES's own path (EGGROLL in JAX), one of each in turn.

    python scripts/gpu_hyperscale.py OUT.json FOLDER [ROUNDS]

FOLDER is a checkout of HyperscaleES (ESHyperscale/HyperscaleES), of whose package only the noiser and the models of plain
networks are imported; jax with its CUDA plugin and optax must be installed next to neuro. Both have mirrored pairs of rank 1 and
bfloat16 parameters in their passes; neuro's are recorded as CUDA graphs (cuda_graphs=true). Its update is of its own bfloat16
parameters by optax's SGD; neuro's is the weighted sum of the noise in float32.
"""

import importlib
import json
import os
import statistics
import sys
import time
from collections.abc import Callable
from importlib.metadata import version
from pathlib import Path
from types import ModuleType
from typing import Any

os.environ.setdefault("XLA_PYTHON_CLIENT_PREALLOCATE", "false")  # both are on one device

import torch
from gpu_layers import SIGMA, Subject, clocked, rounds, spread
from torch import nn

from neuro_cli.model.mnist import MLP_270K
from neuro_cli.sampler.low_rank import LowRank

# inputs, hidden layers, outputs; rows, examples of a member
CASES: dict[str, tuple[tuple[int, list[int], int], tuple[int, int]]] = {
    "linear 1024, 1024": ((1024, [], 1024), (65536, 256)),
    "linear 4096, 4096": ((4096, [], 4096), (65536, 256)),
    "linear 8192, 8192": ((8192, [], 8192), (65536, 256)),
    "linear 4096, 4096, one example each": ((4096, [], 4096), (8192, 1)),
    "MLP 784, 256, 256, 10": ((784, [256, 256], 10), (65536, 256)),
    "MLP 784, 256, 256, 10, one example each": ((784, [256, 256], 10), (8192, 1)),
}


def packages(folder: Path) -> None:
    """Make its packages importable without running their own imports, which need tokenizers and environments."""
    for name in ("hyperscalees", "hyperscalees.noiser", "hyperscalees.models"):
        package = ModuleType(name)
        package.__path__ = [str(folder / "src" / name.replace(".", "/"))]
        sys.modules[name] = package


class Hyperscale:
    """Functions of a network on ``rows`` examples, ``examples`` of them for each member."""

    def __init__(self, sizes: tuple[int, list[int], int], rows: int, examples: int) -> None:
        import jax
        import jax.numpy as jnp
        import optax

        noiser: Any = importlib.import_module("hyperscalees.noiser.eggroll").EggRoll
        common: Any = importlib.import_module("hyperscalees.models.common")
        inputs, hidden, outputs = sizes
        self._ready = jax.block_until_ready
        frozen, params, scan, es = common.MLP.rand_init(
            jax.random.key(0), in_dim=inputs, out_dim=outputs, hidden_dims=hidden, use_bias=bool(hidden), activation="relu",
            dtype="bfloat16",
        )  # fmt: skip
        keys = common.simple_es_tree_key(params, jax.random.key(1), scan)
        fixed, state = noiser.init_noiser(params, SIGMA, 1e-3, solver=optax.sgd, rank=1)

        def passed(state: Any, params: Any, info: Any, x: Any) -> Any:
            return common.MLP.forward(noiser, fixed, state, frozen, params, keys, info, x)

        members = rows // examples
        self._x = jax.random.normal(jax.random.key(2), (members, examples, inputs), dtype="bfloat16")
        self._flat = self._x.reshape(rows, inputs)
        self._members, self._fitness = jnp.arange(members), jax.random.normal(jax.random.key(3), (members,))
        self._epochs = lambda number: jnp.full(members, number, dtype=jnp.int32)
        self._state, self._params = state, params
        self._plain = jax.jit(lambda params, x: passed(state, params, None, x))
        self._forward = jax.jit(jax.vmap(passed, in_axes=(None, None, 0, 0)))
        self._update = jax.jit(lambda s, p, f, i: noiser.do_updates(fixed, s, p, keys, f, i, es))

    def plain(self, number: int) -> None:
        self._ready(self._plain(self._params, self._flat))

    def both(self, number: int) -> None:
        """Run the perturbed pass, its noise drawn, and the update."""
        info = self._epochs(number), self._members
        made = self._forward(self._state, self._params, info, self._x)
        self._ready((made, self._update(self._state, self._params, self._fitness, info)))


def timed(work: Callable[[int], None]) -> Callable[[int], float]:
    """Return ``work``, compiled, as a function of its seconds on the host, with the device waited for."""

    def run(number: int) -> float:
        start = time.perf_counter()
        work(number)
        return time.perf_counter() - start

    for number in range(3):
        run(number)
    return run


def compared(count: int) -> list[dict[str, Any]]:
    """Return seconds of a pass, and of a pass with update, of both systems."""
    found = []
    for name, (sizes, (rows, examples)) in CASES.items():
        inputs, hidden, outputs = sizes
        module = MLP_270K() if hidden else nn.Linear(inputs, outputs, bias=False)
        subject: Subject | None = Subject(module, (1, 28, 28) if hidden else (inputs,), rows, examples, LowRank(), recorded=True)
        assert subject is not None
        other: Hyperscale | None = Hyperscale(sizes, rows, examples)
        assert other is not None
        both = lambda number, subject=subject: (subject.fresh(number), subject.update(number))  # noqa: E731
        seconds = rounds(
            {"plain": clocked(subject.plain), "neuro": clocked(both), "its plain": timed(other.plain), "its": timed(other.both)},
            count,
        )
        row: dict[str, Any] = {"model": name, "rows": rows, "members": rows // examples}
        row |= {f"{what} ms": 1e3 * statistics.median(values) for what, values in seconds.items()}
        pairs = {"neuro": ("plain", "neuro"), "its": ("its plain", "its"), "neuro over its": ("neuro", "its")}
        for what, (a, b) in pairs.items():
            row[what] = spread([x / y for x, y in zip(seconds[a], seconds[b], strict=True)])
        print(json.dumps(row), flush=True)
        found.append(row)
        subject = other = None
        torch.cuda.empty_cache()
    return found


def main() -> None:
    out, folder, *count = sys.argv[1:]
    packages(Path(folder))
    rows = compared(int(count[0]) if count else 20)
    versions = ", ".join(f"{name} {version(name)}" for name in ("jax", "optax", "torch"))
    Path(out).write_text(json.dumps({"rows": rows, "versions": versions}, indent=1) + "\n")


if __name__ == "__main__":
    main()
