"""Times one whole generation of neuro, evosax and EvoTorch, each in a process of its own, one generation in turn.

The workload is W1: MNIST_3M (3,274,634 parameters), population 64 as 32 antithetic pairs, every member on the same 128
images, centred ranks, Adam; sampling, evaluation and update are all timed. The three compute the same network
(scripts/peers/ has it once for jax and once for torch) in float32, but ``--precision bfloat16`` for neuro's evaluation.
neuro scores the bundled digits, resized; the peers get random images of the same shape with random labels: arithmetic and
memory traffic do not depend on the pixels. Two more systems need no peer: ``textbook`` perturbs one module in place, scores
and restores it, with all threads inside torch; ``roof`` does the arithmetic of the forward passes as plain matrix products.

    python scripts/bench_peers.py --systems neuro,textbook,roof

Each peer lives in a virtual environment that the first use makes (``--environments``; EvoTorch's takes 6 GB where
torch comes with CUDA). The first two generations are not counted: the first compiles, in the second memory still grows.
"""

import argparse
import csv
import json
import os
import sys
from contextlib import ExitStack
from datetime import datetime
from pathlib import Path
from typing import Any

from hydra import compose, initialize_config_dir
from omegaconf import OmegaConf
from rich.console import Console
from rich.table import Table
from turns import BenchProcess, Parser, environment_python, installed, integer_from, keep_to_cores, make_folder, measure

from neuro_cli.cli.options.groups import option_of
from neuro_cli.core.errors import UserError, report
from neuro_cli.core.files import config_folder
from neuro_cli.core.machine.processor import processor
from neuro_cli.model import mnist
from neuro_cli.run_folder.summary import git_revision, versions

REQUIREMENTS = {
    "evosax": ("evosax>=0.3.2", "jax>=0.10.2"),
    "evotorch": ("evotorch>=0.6.1", "torch>=2.6"),
}
OURS = ("neuro", "textbook", "roof")  # programs of scripts/peers/neuro_worker.py, in this environment
SYSTEMS = (*OURS, *REQUIREMENTS)
MODELS = ("MNIST_10K", "MNIST_30K", "MNIST_500K", "MNIST_3M")
# jax's older way to split its random stream draws this population a tenth faster
VARIABLES = {"evosax": {"JAX_THREEFRY_PARTITIONABLE": "0"}}
TOLD = ("evosax", "jax", "jaxlib", "evotorch", "torch", "numpy")  # versions in the printed line; the JSON file has all
PHASES = ("sample", "perturb", "forward", "communicate", "update")  # columns of neuro and textbook alone
COLUMNS = ("system", "repeat", "seconds", "peak_memory_bytes", "imports_memory_bytes", *PHASES)


def system_names(text: str) -> list[str]:
    """Return the systems of a comma-separated list, in the order of SYSTEMS."""
    names = [name.strip() for name in text.split(",")]
    for name in names:
        if name not in SYSTEMS:
            raise argparse.ArgumentTypeError(f"{name or repr(name)}: must be among {', '.join(SYSTEMS)}")
    return [name for name in SYSTEMS if name in names]


def arguments() -> argparse.Namespace:
    """Parse the command line. Raises UserError."""
    parser = Parser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    stamp = datetime.now().strftime("%Y-%m-%d_%H-%M-%S-%f")
    parser.add_argument("--systems", type=system_names, default=["neuro", *REQUIREMENTS], help=",".join(SYSTEMS))
    parser.add_argument("--repeats", type=integer_from(1), default=5, help="counted generations of each (5)")
    parser.add_argument("--threads", type=integer_from(1), help="cores that each may use (all usable ones)")
    parser.add_argument("--population", type=integer_from(2, even=True), default=64)
    parser.add_argument("--batch-size", type=integer_from(1), default=128, help="images that a member is scored on (128)")
    parser.add_argument("--model", choices=MODELS, default="MNIST_3M")
    parser.add_argument("--device", choices=("cpu", "cuda"), default="cpu", help="of neuro, textbook and roof")
    parser.add_argument("--precision", choices=("float32", "bfloat16"), default="float32", help="of neuro's evaluation")
    parser.add_argument("--sampler", default="antithetic", help="neuro's sampler, an option of conf/sampler")
    parser.add_argument("--vmap", action="store_true", help="evosax scores members side by side (slower on a CPU)")
    parser.add_argument("--environments", type=Path, default=Path("outputs/peers"), help="folder of the peers' environments")
    parser.add_argument("--output", type=Path, default=Path("outputs/bench_peers", stamp, "peers.csv"), help="CSV file")
    return parser.parse_args()


def neuro_config(*overrides: str) -> dict[str, Any]:
    """Compose the config of a generation: that of ``neuro bench`` with ``overrides``."""
    with initialize_config_dir(str(config_folder()), version_base="1.3", job_name="bench"):
        config = OmegaConf.to_container(compose("bench", list(overrides)), resolve=True)
    assert isinstance(config, dict)
    return {str(key): value for key, value in config.items()}


def typed_config(typed: argparse.Namespace, threads: int) -> dict[str, Any]:
    """Compose what was typed. Raises UserError for a sampler that does not exist."""
    option_of("sampler", typed.sampler)  # names the options when there is no such one
    keys = ("model", "sampler", "population", "batch_size", "precision", "device")
    used = threads if typed.device == "cpu" else 1
    return neuro_config(*(f"{key}={getattr(typed, key)}" for key in keys), f"threads={used}")


def peer_setting(typed: argparse.Namespace, threads: int) -> dict[str, Any]:
    """Return the setting of a peer's program: the same network as ``typed.model``, by its sizes."""
    model = getattr(mnist, typed.model)
    count = sum(parameter.numel() for parameter in model().parameters())
    sizes = {"channels": model.channels, "hidden": model.hidden, "parameters": count}
    typed_too = {"population": typed.population, "batch_size": typed.batch_size, "vmap": typed.vmap}
    return {**sizes, **typed_too, "threads": threads, "seed": 1}


def write(output: Path, workers: list[BenchProcess], record: dict[str, Any]) -> None:
    """Write the rows as CSV, and setting and machine as JSON next to it."""
    with output.open("w", newline="") as file:
        writer = csv.DictWriter(file, COLUMNS, extrasaction="ignore")  # a peer reports no phases
        writer.writeheader()
        for worker in workers:
            writer.writerows({"system": worker.name, "repeat": i, **row} for i, row in enumerate(worker.rows))
    output.with_suffix(".json").write_text(json.dumps(record, indent=2) + "\n")


def show(workers: list[BenchProcess], record: dict[str, Any], console: Console) -> None:
    """Print the table, the ratio of every system to neuro, and the machine."""
    setting = record["setting"]
    title = f"one generation: {setting['model']}, population {setting['population']}, {setting['batch_size']} examples"
    head = ("system", "median s", "min to max s", "candidates/s", "peak MB", "of imports", *PHASES)
    table = Table(*head, title=title)
    for worker in workers:
        seconds = [row["seconds"] for row in worker.rows]
        table.add_row(
            worker.name,
            f"{worker.median('seconds'):.3f}",
            f"{min(seconds):.3f} to {max(seconds):.3f}",
            f"{setting['population'] / worker.median('seconds'):.1f}",
            f"{max(row['peak_memory_bytes'] for row in worker.rows) / 1e6:.0f}",
            *([f"{worker.median('imports_memory_bytes') / 1e6:.0f}"] if worker.name in OURS else []),
            *(f"{worker.median(name):.3f}" for name in PHASES if worker.name in OURS),
        )
    console.print(table)
    for other in workers[1:] if workers[0].name == "neuro" else []:
        console.print(workers[0].ratio_to(other))
    console.print(f"neuro: sampler {setting['sampler']}, {setting['precision']} evaluation; evosax: {record['evosax']}")
    before, after = record["load"]
    console.print(f"{record['processor']}, {record['threads']} threads; load average {before:.1f} before, {after:.1f} after")
    for name, packages in record["versions"].items():
        told = packages if name == "neuro" else {key: packages[key] for key in TOLD if key in packages}
        console.print(f"{name}: " + ", ".join(f"{key} {version}" for key, version in told.items() if version))


def command_of(name: str, python: Path, setting: dict[str, Any]) -> list[str]:
    """Return the command of a system's worker."""
    worker = Path(__file__).parent / "peers" / f"{'neuro' if name in OURS else name}_worker.py"
    return [str(python), str(worker), *([name] if name in OURS else []), json.dumps(setting)]


def bench(typed: argparse.Namespace, console: Console) -> None:
    """Create missing environments, measure, write and print. Raises UserError."""
    threads = keep_to_cores(typed.threads)
    config = typed_config(typed, threads)
    setting = peer_setting(typed, threads)
    make_folder(typed.output)
    pythons = {
        name: environment_python(name, REQUIREMENTS[name], typed.environments, console)
        for name in typed.systems
        if name not in OURS
    }
    packages = {"neuro": {**versions(None), "revision": git_revision()}} if set(OURS) & set(typed.systems) else {}
    before = os.getloadavg()[0]
    workers: list[BenchProcess] = []
    with ExitStack() as stack:
        for name in typed.systems:
            log = typed.output.with_name(f"{name}.log")
            python, given = (Path(sys.executable), config) if name in OURS else (pythons[name], setting)
            workers.append(BenchProcess(name, command_of(name, python, given), log, given["threads"], VARIABLES.get(name, {})))
            stack.callback(workers[-1].close)
        measure(workers, typed.repeats)
    record = {
        "setting": {key: str(value) if isinstance(value, Path) else value for key, value in vars(typed).items()},
        "evosax": "vmap" if typed.vmap else "lax.map",
        "processor": processor(),
        "threads": threads,
        "load": [before, os.getloadavg()[0]],
        "versions": packages | {name: installed(python) for name, python in pythons.items()},
    }
    write(typed.output, workers, record)
    show(workers, record, console)
    console.print(f"results in {typed.output}")


def main() -> int:
    try:
        bench(arguments(), Console())
    except (UserError, OSError) as error:
        return report(error)
    return 0


if __name__ == "__main__":
    sys.exit(main())
