"""A generation of small members on a GPU with passes recorded as CUDA graphs and without, one of each in turn.

python scripts/gpu_graphs.py OUT.json [ROUNDS]
"""

import json
import sys
from pathlib import Path
from typing import Any

from bench_peers import command_of, neuro_config
from turns import BenchProcess

# model, sampler, members; 128 examples
CASES = (
    ("MNIST_10K", "low_rank", 64),
    ("MNIST_10K", "low_rank", 1024),
    ("MNIST_10K", "antithetic", 64),
    ("MLP_270K", "low_rank", 256),
)


def neuro(log: Path, *options: str) -> BenchProcess:
    """Start neuro's process on the GPU with ``options``."""
    config = neuro_config("device=cuda", "precision=bfloat16", "threads=1", *options)
    return BenchProcess("neuro", command_of("neuro", Path(sys.executable), config), log, 1)


def main() -> None:
    out, count = Path(sys.argv[1]), int(sys.argv[2]) if len(sys.argv) > 2 else 30
    rows: list[dict[str, Any]] = []
    for model, sampler, members in CASES:
        options = [f"model={model}", f"sampler={sampler}", f"population={members}"]
        logs = {graphs: out.with_suffix(f".{graphs}.log") for graphs in ("false", "true")}
        workers = [neuro(log, *options, f"cuda_graphs={graphs}") for graphs, log in logs.items()]
        try:
            for number in range(count + 5):
                for worker in workers:
                    worker.generation(counted=number >= 5)
        finally:
            for worker in workers:
                worker.close()
        plain, recorded = ([row["seconds"] for row in worker.rows] for worker in workers)
        row = {"model": model, "sampler": sampler, "members": members, "plain": plain, "recorded": recorded}
        row |= {name: [each[name] for each in workers[1].rows] for name in ("forward", "update")}
        rows.append(row)
    out.write_text(json.dumps(rows, indent=1) + "\n")


if __name__ == "__main__":
    main()
