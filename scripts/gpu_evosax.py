"""W1 on a GPU: a generation of neuro, of evosax with ``vmap`` in its default and in full float32, one of each in turn.

    python scripts/gpu_evosax.py OUT.json [ROUNDS]

jax needs its CUDA plugin and evosax to be installed next to neuro. jax's default rounds the factors of float32 products to
TF32 on such a GPU; neuro's float32 does not, so both of evosax's ways are here.
"""

import json
import sys
from importlib.metadata import version
from pathlib import Path
from typing import Any

from bench_peers import command_of, neuro_config
from turns import UNCOUNTED, BenchProcess, measure

from neuro_cli.model.mnist import MNIST_3M


def neuro(log: Path, precision: str, *options: str) -> BenchProcess:
    """Start neuro's process on the GPU with ``options``."""
    config = neuro_config("device=cuda", f"precision={precision}", "threads=1", *options)
    return BenchProcess("neuro", command_of("neuro", Path(sys.executable), config), log, 1)


def peer(name: str, variables: dict[str, str], out: Path) -> BenchProcess:
    """Start evosax, with ``variables`` in its environment."""
    count = sum(parameter.numel() for parameter in MNIST_3M().parameters())
    setting: dict[str, Any] = {
        "channels": MNIST_3M.channels,
        "hidden": MNIST_3M.hidden,
        "parameters": count,
        "seed": 1,
        "threads": 1,
    }
    given = setting | {"population": 64, "batch_size": 128, "vmap": True}
    command = command_of("evosax", Path(sys.executable), given)
    return BenchProcess(name, command, out.with_suffix(f".{name}.log"), 1, variables)


def main() -> None:
    out, count = Path(sys.argv[1]), int(sys.argv[2]) if len(sys.argv) > 2 else 10
    alone = {"XLA_PYTHON_CLIENT_PREALLOCATE": "false"}  # all of them are on one device
    workers = [
        neuro(out.with_suffix(".float32.log"), "float32"),
        neuro(out.with_suffix(".bfloat16.log"), "bfloat16"),
        peer("evosax", alone, out),
        peer("evosax_float32", alone | {"JAX_DEFAULT_MATMUL_PRECISION": "highest"}, out),
    ]
    workers[1].name = "neuro bfloat16"
    try:
        measure(workers, count)
    finally:
        for worker in workers:
            worker.close()
    seconds = {worker.name: [row["seconds"] for row in worker.rows] for worker in workers}
    versions = ", ".join(f"{name} {version(name)}" for name in ("evosax", "jax", "torch"))
    out.write_text(json.dumps({"seconds": seconds, "uncounted": UNCOUNTED, "versions": versions}, indent=1) + "\n")


if __name__ == "__main__":
    main()
