"""Times generations of networks that neuro is not tuned on against a named reference, one of each in turn.

    python scripts/bench_networks.py                       # all rows
    python scripts/bench_networks.py --rows 'policy*' 'ask*'

Rows of networks: ``neuro.Evolution.step(fitness, inputs, targets)`` (antithetic, Adam) against evosax's Open_ES, the faster of
``lax.map`` and ``vmap`` in their second generation; four networks of users also against ``torch.vmap`` over all members (rows
that end in ``_torch``). Large layers: a generation (SGD), or its update alone, against one plain
forward pass of all members' rows in one batch, with the peak memory above the imports over the bytes of the weights. Ask and
tell: a generation on the sphere against pycma. Rollouts: 1,000 environment steps by 512 policies on one core against one bare
environment with a constant action.
Ratios are medians over pairs of one run, with the least and the most; below 1 is faster. On busy cores the ratio of processor
times says more: waiting counts in neither. Peers live in environments of their own, which the first use makes
(``--environments``). MNIST_3M: bench_peers.py; growth with parameters, population and ranks:
``neuro bench growth``; rank 1 updates of single layers: ``neuro bench layer``; on a GPU: gpu_check.sh.
"""

import argparse
import csv
import fnmatch
import json
import os
import statistics
import sys
from contextlib import ExitStack
from dataclasses import dataclass, field
from datetime import datetime
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.table import Table
from turns import BenchProcess, Parser, environment_python, integer_from, keep_to_cores, make_folder, measure

from neuro_cli.core.errors import UserError, report
from neuro_cli.core.machine.processor import processor
from neuro_cli.run_folder.summary import git_revision, versions

REQUIREMENTS = {"evosax": ("evosax>=0.3.2", "jax>=0.10.2"), "pycma": ("cma>=4.4",)}
VARIABLES = {
    "JAX_THREEFRY_PARTITIONABLE": "0",  # jax's older way to split its random stream is faster here
    "XLA_PYTHON_CLIENT_PREALLOCATE": "false",  # otherwise jax takes most of a GPU's memory from the start
}
PEERS = Path(__file__).parent / "peers"
ALGORITHMS = ("openai_es", "ars", "pgpe", "snes", "xnes", "sep_cma_es", "cma_es", "cr_fm_nes", "genetic", "asktell")
COLUMNS = ("row", "system", "repeat", "seconds", "processor_seconds", "peak_memory_bytes")


@dataclass(frozen=True)
class System:
    """Program of scripts/peers with its setting; ``environment``: this one (None), or a peer's."""

    name: str
    program: str
    setting: dict[str, Any]
    environment: str | None = None


@dataclass(frozen=True)
class Row:
    """Comparison of ``ours`` with the fastest of ``references``; ``goal`` of the ratio, ``weights``: bytes of large layers."""

    name: str
    ours: System
    references: list[System]
    goal: float
    weights: int = 0
    workers: list[BenchProcess] = field(default_factory=list)


def network_row(name: str, goal: float, network: str = "", sampler: str = "antithetic", pairs: bool = True) -> Row:
    """Return the row of a network against evosax, whose members are mirrored ``pairs``, its default, or all drawn."""
    network = network or name
    ours = System("neuro", "network_evolution.py", {"network": network, "sampler": sampler, "layout": "shared_batch"})
    ways = {"lax.map": False, "vmap": True}
    peers = [
        System(f"evosax {way}", "network_evosax.py", {"network": network, "vmap": vmap, "pairs": pairs}, "evosax")
        for way, vmap in ways.items()
    ]
    return Row(name, ours, peers, goal)


def user_rows(name: str) -> list[Row]:
    """Return the rows of a network that no loop was written for: against evosax, and torch's vmap, which takes no GRU."""
    ours = network_row(name, 1.0)
    plain = System("torch vmap", "network_evolution.py", ours.ours.setting | {"plain": True})
    return [ours, *([] if name.startswith("gru") else [Row(f"{name}_torch", ours.ours, [plain], 1.0)])]


def large_row(width: int, members: int, rows: int, sampler: str, dtype: str, goal: float, part: str = "large") -> Row:
    """Return the row of two large layers against plain inference; ``part``: large (a generation) or update (alone)."""
    setting = {"width": width, "members": members, "rows": rows, "sampler": sampler, "dtype": dtype, "update": part == "update"}
    name = f"{part}_{width}_{members}x{rows}_{sampler}_{dtype}"
    ours, plain = (System(way, "network_evolution.py", setting | {"inference": way != "neuro"}) for way in ("neuro", "inference"))
    return Row(name, ours, [plain], goal, 2 * width**2 * (4 if dtype == "float32" else 2))


def ask_row(algo: str, dimensions: int, population: int) -> Row:
    """Return the row of an algorithm's ask and tell against pycma."""
    setting = {"dimensions": dimensions, "population": population}
    peer = "pycma_diagonal" if algo == "sep_cma_es" else "pycma"
    ours, reference = (
        System("neuro", "ask_tell.py", setting | {"algo": algo}),
        System(peer, "ask_tell.py", setting | {"algo": peer}, "pycma"),
    )
    return Row(f"ask_{algo}_{dimensions}_{population}", ours, [reference], 1.0)


def rollout_row(name: str, *overrides: str) -> Row:
    """Return the row of policies in an environment of gymnasium against the bare environment."""
    given = ["task=gymnasium", "model=mlp_policy", "model.hidden=[64,64]", "population=512", *overrides]
    ours, bare = (System(way, "rollout.py", {"overrides": given, "bare": way != "neuro"}) for way in ("neuro", "bare"))
    return Row(f"rollout_{name}", ours, [bare], 1.0)


def all_rows() -> list[Row]:
    """Return the rows in the order of the table."""
    samplers = ("iid", "low_rank", "sign_flip", "noise_table")
    return [
        network_row("policy_512", 0.15),
        network_row("policy_4096", 0.12),
        *(network_row(f"policy_512_{sampler}", 0.15, "policy_512", sampler) for sampler in samplers),
        network_row("policy_512_iid_drawn", 0.15, "policy_512", "iid", pairs=False),
        *(row for name in ("relu_10000", "gru_1024", "line_1024", "norms_512") for row in user_rows(name)),
        network_row("char_gpt", 0.3),
        network_row("mlp_784", 0.27),
        network_row("mlp_2048", 0.2),
        *(network_row(name, 0.4) for name in ("blocks_3x3", "conv_96_160", "mobile_64x64", "strided_32x32", "fives_32x32")),
        *(
            large_row(width, members, rows, sampler, dtype, 1.3)
            for width, members, rows in ((8192, 16, 64), (8192, 16, 8), (2048, 16, 64), (2048, 64, 64), (512, 256, 16))
            for sampler in ("low_rank", "sign_flip")
            for dtype in ("float32", "bfloat16")
        ),
        *(
            large_row(width, members, rows, "low_rank", dtype, 1.0, "update")
            for width, members, rows in ((8192, 16, 64), (2048, 64, 64), (512, 256, 16))
            for dtype in ("float32", "bfloat16")
        ),
        rollout_row("cart_pole", "task.id=CartPole-v1"),
        rollout_row("pendulum", "task.id=Pendulum-v1"),
        rollout_row("bipedal_walker", "task.id=BipedalWalker-v3", "task.max_steps=50"),  # 24 numbers to 4, as policy_512
        *(ask_row(algo, *sizes) for algo in ALGORITHMS for sizes in ((10, 20), (10, 200), (100, 20), (100, 200))),
    ]


def arguments(rows: list[Row]) -> argparse.Namespace:
    """Parse the command line. Raises UserError."""
    parser = Parser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    stamp = datetime.now().strftime("%Y-%m-%d_%H-%M-%S-%f")
    parser.add_argument("--rows", nargs="+", default=["*"], help="names or patterns, of: " + ", ".join(row.name for row in rows))
    parser.add_argument("--repeats", type=integer_from(1), default=7, help="counted generations of each (7)")
    parser.add_argument("--threads", type=integer_from(1), help="cores that each may use (all usable ones)")
    parser.add_argument("--device", choices=("cpu", "cuda"), default="cpu", help="cuda: the peers are installed next to neuro")
    parser.add_argument("--environments", type=Path, default=Path("outputs/peers"), help="folder of the peers' environments")
    parser.add_argument("--output", type=Path, default=Path("outputs/bench_networks", stamp, "networks.csv"), help="CSV file")
    return parser.parse_args()


def chosen(rows: list[Row], patterns: list[str]) -> list[Row]:
    """Return the rows whose names match a pattern. Raises UserError for a pattern without any."""
    for pattern in patterns:
        if not any(fnmatch.fnmatchcase(row.name, pattern) for row in rows):
            raise UserError(f"--rows {pattern}: no such row; --help lists them")
    return [row for row in rows if any(fnmatch.fnmatchcase(row.name, pattern) for pattern in patterns)]


def run(row: Row, pythons: dict[str | None, Path], machine: dict[str, Any], repeats: int, folder: Path) -> None:
    """Measure a row in processes that end with it; ``machine``: threads and device of all of them. Raises UserError."""
    with ExitStack() as stack:
        for system in (row.ours, *row.references):
            setting = json.dumps(system.setting | machine)
            command = [str(pythons[system.environment]), str(PEERS / system.program), setting]
            log = folder / f"{row.name}_{system.name.replace(' ', '_')}.log"
            worker = BenchProcess(system.name, command, log, machine["threads"], VARIABLES)
            stack.callback(worker.close)
            row.workers.append(worker)
        row.workers[1:] = [quickest(row.workers[1:])]
        measure(row.workers, repeats)


def quickest(references: list[BenchProcess]) -> BenchProcess:
    """Return the one whose second generation took least, the first being compiled: convolutions by vmap take minutes."""
    if len(references) > 1:
        for reference in references:
            reference.generation(counted=False)
            reference.generation(counted=True)
    best = min(references, key=lambda reference: sum(row["seconds"] for row in reference.rows))
    best.rows.clear()
    return best


def spread(ratios: list[float]) -> str:
    """Return the median of ratios with the least and the most."""
    return f"{statistics.median(ratios):.2f} ({min(ratios):.2f} to {max(ratios):.2f})"


def words(row: Row) -> tuple[str, ...]:
    """Return the cells of a measured row."""
    ours, reference = row.workers
    memory = f"{max(r['peak_memory_bytes'] for r in ours.rows) / row.weights:.2f}" if row.weights else ""
    return (
        row.name,
        f"{ours.median('seconds') * 1e3:.2f}",
        f"{reference.median('seconds') * 1e3:.2f}",
        reference.name,
        spread(ours.ratios(reference)),
        spread(ours.ratios(reference, "processor_seconds")),
        f"{row.goal:.2f}",
        memory,
    )


def bench(typed: argparse.Namespace, rows: list[Row], console: Console) -> None:
    """Create missing environments, measure row by row, write and print. Raises UserError."""
    picked = chosen(rows, typed.rows)
    threads = keep_to_cores(typed.threads)
    make_folder(typed.output)
    wanted = {system.environment for row in picked for system in row.references if system.environment is not None}
    pythons: dict[str | None, Path] = {None: Path(sys.executable)}
    for name in sorted(wanted):
        if typed.device == "cpu":
            pythons[name] = environment_python(name, REQUIREMENTS[name], typed.environments, console)
        else:
            pythons[name] = pythons[None]
    heads = ("row", "neuro ms", "reference ms", "reference", "ratio of pairs", "of processor time", "goal", "peak / weights")
    table = Table(*heads, title="one generation, or 1,000 steps of a rollout")
    before = os.getloadavg()[0]
    with typed.output.open("w", newline="") as file:
        writer = csv.DictWriter(file, COLUMNS, extrasaction="ignore")
        writer.writeheader()
        for row in picked:
            run(row, pythons, {"threads": threads, "device": typed.device}, typed.repeats, typed.output.parent)
            table.add_row(*words(row))
            for worker in row.workers:
                writer.writerows({"row": row.name, "system": worker.name, "repeat": i, **r} for i, r in enumerate(worker.rows))
            file.flush()
            console.print("  ".join(words(row)), style="dim")
    console.print(table)
    load = f"load average {before:.1f} before, {os.getloadavg()[0]:.1f} after"
    console.print(f"{processor()}, {threads} threads; {load}; torch {versions(None)['torch']}, revision {git_revision()}")
    console.print(f"results in {typed.output}")


def main() -> int:
    try:
        rows = all_rows()
        bench(arguments(rows), rows, Console())
    except (UserError, OSError) as error:
        return report(error)
    return 0


if __name__ == "__main__":
    sys.exit(main())
