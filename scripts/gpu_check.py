"""Parts of scripts/gpu_check.sh: each is a command in a process of its own, and its figures become lines of a page.

A part that fails or that something is missing for says so on the page; the others run. Goals that are missed are named so.
"""

import argparse
import csv
import json
import os
import statistics
import subprocess
import sys
import time
from collections.abc import Callable
from datetime import UTC, datetime
from importlib.util import find_spec
from pathlib import Path
from typing import Any, NoReturn

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT))
NEURO = ["-m", "neuro_cli"]
ENTRIES = ("nes_table_1", "nes_table_2", "nes_table_3", "nes_table_4", "nes_memory")
TESTS = [
    "tests/core/test_triton_kernels.py",
    "tests/core/test_graphs.py",
    "tests/core/test_noise.py",
    "tests/scoring/test_perturbed.py",
    "tests/gpu",
]
MNIST = ["+experiment=mnist_98", "device=cuda", "batch_size=1024", "algo.optimizer.lr=0.006", "evaluate.every=25",
         "checkpoint.every=100000", "stop.at=0.973"]  # fmt: skip
SEEDS = range(1, 6)
Lines = list[str]


def median(values: list[float], form: str) -> str:
    """Format median, least and most, ``2.10 (2.02 to 2.31)``."""
    return f"{statistics.median(values):{form}} ({min(values):{form}} to {max(values):{form}})"


class Check:
    """Parts of the check, with their folder and results."""

    def __init__(self, folder: Path, data: Path | None, checkout: Path | None) -> None:
        self.folder, self.data, self.checkout = folder, data, checkout
        self.results: dict[str, Any] = {}

    def run(self, name: str, command: list[str], seconds: float = 580) -> subprocess.CompletedProcess[str]:
        """Run Python with ``command``, its output in a log. Raises RuntimeError with its last line."""
        paths = [str(ROOT), str(ROOT / "scripts"), *filter(None, [os.environ.get("PYTHONPATH")])]
        environment = os.environ | {"PYTHONPATH": os.pathsep.join(paths)}
        done = subprocess.run(
            [sys.executable, *command], cwd=ROOT, env=environment, capture_output=True, text=True, timeout=seconds
        )
        (self.folder / f"{name}.log").write_text(done.stdout + done.stderr)
        if done.returncode:
            raise RuntimeError(([*done.stdout.splitlines(), *done.stderr.splitlines()] or ["no message"])[-1][:300])
        return done

    def tests(self) -> Lines:
        """Run the tests that have a CUDA device as a parameter, and those of tests/gpu."""
        workers = ["-n", str(min(14, os.cpu_count() or 1))] if find_spec("xdist") else []
        command = ["-m", "pytest", *workers, "-p", "no:cacheprovider", "-m", "not slow", "-k", "cuda or gpu", *TESTS]
        try:
            last = self.run("tests", command).stdout.strip().splitlines()[-1]
        except RuntimeError as error:
            last = str(error)
        self.results["tests"] = last
        return [f"`python {' '.join(command[:2])} -k 'cuda or gpu' {' '.join(TESTS)}`: {last.strip('= ')}"]

    def generation(self) -> Lines:
        """Time W1 in both precisions."""
        made = ["| precision | neuro s | textbook s | neuro / textbook | neuro / roof |", "|---|---|---|---|---|"]
        for precision in ("float32", "bfloat16"):
            run = self.folder / f"generation_{precision}"
            options = ["--systems", "neuro,textbook,roof", "--device", "cuda", "--precision", precision, "--repeats", "10"]
            self.run(run.name, ["scripts/bench_peers.py", *options, "--output", str(run / "peers.csv")])
            seconds: dict[str, list[float]] = {}
            for row in csv.DictReader((run / "peers.csv").open()):
                seconds.setdefault(row["system"], []).append(float(row["seconds"]))
            self.results[run.name] = seconds
            ratios = [[a / b for a, b in zip(seconds["neuro"], seconds[other], strict=True)] for other in ("textbook", "roof")]
            made.append(
                f"| {precision} | {median(seconds['neuro'], '.4f')} | {median(seconds['textbook'], '.4f')} | "
                + " | ".join(median(values, ".2f") for values in ratios) + " |"
            )  # fmt: skip
        command = "python scripts/bench_peers.py --systems neuro,textbook,roof --device cuda --precision ... --repeats 10"
        return [f"`{command}`: MNIST_3M, population 64, 128 examples", "", *made]

    def reproduce(self) -> Lines:
        """Reproduce tables 1 to 4 of the paper and the memory; ``scripts/results.py FOLDER/reproduce`` keeps them."""
        from results import headlines, read_results, summary

        from neuro_cli.reproduce.results import counts

        folder = self.folder / "reproduce"
        options = [f"table=[{','.join(ENTRIES)}]", "size=full"]
        self.run("reproduce", [*NEURO, "reproduce", *options, f"folder={folder}"])
        found = {f"gpu/{entry}.md": read_results(folder / entry / f"{entry}.csv") for entry in ENTRIES}
        self.results["reproduce"] = {results[0].table: counts(results) for results in found.values()}
        return [f'`neuro reproduce "{options[0]}" {options[1]}`', "", summary(found), "", headlines(found)]

    def inference(self) -> Lines:
        """Compare low rank with its goal."""
        out = self.folder / "inference.json"
        self.run("inference", ["scripts/gpu_layers.py", str(out), "20"])
        rows = self.results["inference"] = json.loads(out.read_text())
        made = [
            "| model | rows | members | inference ms | forward | forward and update | goal 0.9 |",
            "|---|---|---|---|---|---|---|",
        ]
        for row in rows:
            cells = [row["model"], f"{row['rows']:,}", f"{row['members']:,}", f"{row['plain_ms']:.3f}"]
            cells += [three(row["forward"]), three(row["both"]), "met" if row["both"][0] >= 0.9 else "missed"]
            made.append("| " + " | ".join(cells) + " |")
        return ["`python scripts/gpu_layers.py OUT.json 20`", "", *made]

    def mnist(self) -> Lines:
        """Measure seconds to 97.3 % test accuracy, by noise on activations."""
        if self.data is None:
            return ["not run: `--data` names the folder that holds MNIST/raw"]
        heads = ["seed", "generations", "seconds of them", "wall, start included", "test accuracy", "goal 27 s"]
        made = ["| " + " | ".join(heads) + " |", "|---" * len(heads) + "|"]
        for seed in SEEDS:
            run = self.folder / f"mnist_{seed}"
            options = [*MNIST, f"seed={seed}", f"task.root={self.data}", f"hydra.run.dir={run}"]
            begun = time.perf_counter()
            self.run(run.name, [*NEURO, "train", *options], 60)
            wall = time.perf_counter() - begun
            rows = list(csv.DictReader((run / "metrics.csv").open()))
            trained, accuracy = (float(rows[-1][name]) for name in ("elapsed_seconds", "test_accuracy"))
            self.results[run.name] = {"wall": wall, "trained": trained, "accuracy": accuracy, "generations": len(rows)}
            met = "met" if accuracy >= 0.973 and wall <= 27 else "missed"
            cells = [f"{seed}", f"{len(rows)}", f"{trained:.1f}", f"{wall:.1f} s", f"{100 * accuracy:.2f} %", met]
            made.append(f"| {' | '.join(cells)} |")
        return [f"`neuro train {' '.join(MNIST)} seed=... task.root=...`", "", *made]

    def graphs(self) -> Lines:
        """Time a generation of small members with and without CUDA graphs."""
        out = self.folder / "graphs.json"
        self.run("graphs", ["scripts/gpu_graphs.py", str(out), "20"])
        found = self.results["graphs"] = json.loads(out.read_text())
        made = ["| model | sampler | members | launched one by one, ms | recorded, ms | ratio |", "|---|---|---|---|---|---|"]
        for row in found:
            ratio = median([a / b for a, b in zip(row["recorded"], row["plain"], strict=True)], ".2f")
            cells = [row["model"], row["sampler"], f"{row['members']:,}"]
            cells += [median([1e3 * value for value in row[name]], ".2f") for name in ("plain", "recorded")]
            made.append("| " + " | ".join([*cells, ratio]) + " |")
        return ["`python scripts/gpu_graphs.py OUT.json 20`: 128 examples, bfloat16", "", *made]

    def hyperscale(self) -> Lines:
        """Time low rank in turns with HyperscaleES."""
        if self.checkout is None:
            return ["not run: `--hyperscale` names a checkout of HyperscaleES"]
        out = self.folder / "hyperscale.json"
        self.run("hyperscale", ["scripts/gpu_hyperscale.py", str(out), str(self.checkout), "12"])
        found = self.results["hyperscale"] = json.loads(out.read_text())
        heads = [
            "model",
            "rows",
            "members",
            "inference ms: neuro, its",
            "pass and update ms: neuro, its",
            "inference over that: neuro",
            "its",
        ]
        made = ["| " + " | ".join([*heads, "neuro's time over its"]) + " |", "|---" * (len(heads) + 1) + "|"]
        for row in found["rows"]:
            cells = [row["model"], f"{row['rows']:,}", f"{row['members']:,}"]
            cells += [f"{row[f'{a} ms']:.2f}, {row[f'{b} ms']:.2f}" for a, b in (("plain", "its plain"), ("neuro", "its"))]
            cells += [three(row[name]) for name in ("neuro", "its", "neuro over its")]
            made.append("| " + " | ".join(cells) + " |")
        return [f"`python scripts/gpu_hyperscale.py OUT.json FOLDER 12`: bfloat16, {found['versions']}", "", *made]

    def networks(self) -> Lines:
        """Time small networks and large layers in turns with evosax and plain inference."""
        out = self.folder / "networks.csv"
        rows = ["policy_512", "policy_4096", "char_gpt", "blocks_3x3", "large_8192_16x64_low_rank_bfloat16"]
        command = ["scripts/bench_networks.py", "--device", "cuda", "--rows", *rows, "--output", str(out)]
        self.run("networks", command)
        seconds: dict[tuple[str, str], list[float]] = {}
        for row in csv.DictReader(out.open()):
            seconds.setdefault((row["row"], row["system"]), []).append(float(row["seconds"]))
        made = []
        for (name, system), values in seconds.items():
            ratio = median([a / b for a, b in zip(seconds[name, "neuro"], values, strict=True)], ".2f")
            made.append(f"| {name} | {system} | {median([1e3 * value for value in values], '.2f')} | {ratio} |")
        self.results["networks"] = {" ".join(key): values for key, values in seconds.items()}
        return [
            f"`python {' '.join(command[:-2])}`",
            "",
            "| row | system | ms | neuro's time over it |",
            "|---|---|---|---|",
            *made,
        ]


def three(values: list[float]) -> str:
    return f"{values[0]:.2f} ({values[1]:.2f} to {values[2]:.2f})"


TITLES: dict[str, str] = {
    "tests": "Correctness on CUDA",
    "generation": "A generation (W1)",
    "reproduce": "Tables 1 to 4 and memory, float16",
    "inference": "Low rank against batch inference (goal: at least 0.9 with the update)",
    "mnist": "MNIST: 97.3 % in at most 27 s, by noise on activations",
    "graphs": "Small members as CUDA graphs",
    "hyperscale": "Low rank against HyperscaleES",
    "networks": "Networks and layers against evosax and plain inference",
}


def machine() -> str:
    """Describe the device, its driver, and the versions of the libraries."""
    import torch

    from neuro_cli.core.kernels.gpu import card

    return f"{card()}, torch {torch.__version__}, {datetime.now(UTC):%Y-%m-%d %H:%M} UTC"


class Parser(argparse.ArgumentParser):
    """Argument parser whose errors are one line."""

    def error(self, message: str) -> NoReturn:
        print(f"neuro: gpu_check: {message}; --help lists the options", file=sys.stderr)
        sys.exit(2)


def arguments() -> argparse.Namespace:
    """Parse the command line; exit with code 2 where it is wrong."""
    parser = Parser(prog="gpu_check", description=__doc__)
    parser.add_argument("--folder", type=Path, default=Path("outputs/gpu"), help="where results go (outputs/gpu)")
    parser.add_argument("--data", type=Path, help="folder that holds MNIST/raw")
    parser.add_argument("--hyperscale", type=Path, help="checkout of ESHyperscale/HyperscaleES")
    parser.add_argument("--only", default=",".join(TITLES), help="parts, separated by commas (all)")
    typed = parser.parse_args()
    typed.only = typed.only.split(",")
    for name in typed.only:
        if name not in TITLES:
            parser.error(f"--only {name}: must be among {', '.join(TITLES)}")
    if typed.data is not None and not (typed.data / "MNIST" / "raw").is_dir():
        parser.error(f"--data {typed.data}: no MNIST/raw there")
    if typed.hyperscale is not None and not (typed.hyperscale / "src" / "hyperscalees").is_dir():
        parser.error(f"--hyperscale {typed.hyperscale}: no src/hyperscalees there")
    return typed


def main() -> int:
    typed = arguments()
    import torch

    if not torch.cuda.is_available():
        print("neuro: gpu_check: no CUDA device that torch can use; run it where `neuro doctor` names one", file=sys.stderr)
        return 2
    folder = typed.folder.absolute()
    folder.mkdir(parents=True, exist_ok=True)
    check = Check(folder, typed.data and typed.data.absolute(), typed.hyperscale and typed.hyperscale.absolute())
    lines = ["# On a GPU", "", f"By `scripts/gpu_check.sh`: {machine()}."]
    for name in typed.only:  # keeps the order of the command line
        part: Callable[[], Lines] = getattr(check, name)
        try:
            said = part()
        except (RuntimeError, OSError, KeyError, ValueError, subprocess.TimeoutExpired) as error:
            said = [f"failed: {error}; what it said is in {name}.log"]
        lines += ["", f"## {TITLES[name]}", "", *said]
        (folder / "gpu.md").write_text("\n".join(lines) + "\n")
        (folder / "results.json").write_text(json.dumps(check.results, indent=1) + "\n")
        print("\n".join(["", f"## {TITLES[name]}", *said]), flush=True)
    print(f"neuro: results in {folder / 'gpu.md'}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
