"""Draws the README's figure, docs/images/accuracy.svg: test accuracy on MNIST over seconds since a command was typed.

    python scripts/readme_figure.py                        draw it from docs/results/accuracy.csv
    python scripts/readme_figure.py OUT.svg                draw it to another file
    python scripts/readme_figure.py --measure ROOT         measure the curves again, one after the other; ROOT has MNIST/raw

evosax runs in its own environment, outputs/peers/evosax, which ``python scripts/bench_peers.py --systems evosax`` makes.
"""

import argparse
import csv
import json
import os
import subprocess
import sys
import time
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path
from tempfile import TemporaryDirectory

import matplotlib
from matplotlib.backends.backend_svg import FigureCanvasSVG
from matplotlib.figure import Figure

from neuro_cli.core.machine.processor import processor

ROOT = Path(__file__).resolve().parents[1]
FIGURE = ROOT / "docs" / "images" / "accuracy.svg"
RECORD = ROOT / "docs" / "results" / "accuracy.csv"
SECONDS = 60
COLUMNS = ("curve", "seconds", "accuracy", "command", "machine", "date")
NETWORK = "task=mnist model=strided_cnn model.channels=[12,24] distribution=local batch_size=128 evaluate.every=50"
EVOSAX = "outputs/peers/evosax/bin/python"
# label of a curve -> its command; the first three end after SECONDS by their own clock
CURVES = {
    "back-propagation": f"neuro train {NETWORK} algo=sgd generations=1875",
    "forward passes, noise on activations": "neuro train +experiment=mnist_98 generations=5700 stop.at=null stop.metric=null "
    "evaluate.every=50",
    "forward passes, noise on weights": "neuro train +experiment=mnist_fast generations=1400 evaluate.every=10",
    "evosax 0.3.2, Open_ES": f"{EVOSAX} scripts/peers/evosax_mnist.py --population 128 --batch-size 128 --every 2",
}
# legible on white and on black
COLOURS = ("#7f7f7f", "#1f77b4", "#17a2b8", "#d9730d")
TEXT = "#808080"


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("file", nargs="?", type=Path, default=FIGURE)
    parser.add_argument("--measure", metavar="ROOT", type=Path)
    typed = parser.parse_args()
    if typed.measure is not None:
        measure(typed.measure.resolve())
    draw(read(), typed.file)
    return 0


def measure(data: Path) -> None:
    """Write RECORD: one row for each test evaluation of each curve."""
    date = f"{datetime.now(UTC):%Y-%m-%d %H:%M} UTC"
    with RECORD.open("w", newline="") as file:
        rows = csv.DictWriter(file, COLUMNS, lineterminator="\n")
        rows.writeheader()
        for curve, command in CURVES.items():
            for seconds, accuracy in evaluations(command, data):
                facts = {"command": command, "machine": f"{processor()}, {os.cpu_count()} cores", "date": date}
                rows.writerow({"curve": curve, "seconds": round(seconds, 1), "accuracy": round(accuracy, 4)} | facts)
            file.flush()


def evaluations(command: str, data: Path) -> Iterator[tuple[float, float]]:
    """Seconds since the command was typed and test accuracy of each of its evaluations, until SECONDS have passed."""
    began = time.perf_counter()
    with TemporaryDirectory() as folder:
        words = command.split()
        if words[0] == "neuro":
            own = [f"task.root={data}", f"time_limit={SECONDS}", f"hydra.run.dir={folder}/run"]
            words = [sys.executable, "-m", "neuro_cli", *words[1:], *own]
        else:
            words += ["--root", str(data), "--seconds", str(SECONDS)]
        output = Path(folder) / "output"
        with output.open("w") as said:
            process = subprocess.Popen(words, cwd=ROOT, stdout=said)
        file, known = (Path(folder) / "run" / "metrics.csv" if "neuro_cli" in words else output), 0
        while True:
            ended = process.poll() is not None
            found = accuracies(file)
            for accuracy in found[known:]:
                yield time.perf_counter() - began, accuracy
            known = len(found)
            if ended:
                break
            time.sleep(0.05)
    if process.returncode:
        sys.exit(f"{command}: exit code {process.returncode}")


def accuracies(file: Path) -> list[float]:
    """Test accuracies that a run has written so far; a line without its end is not read."""
    text = file.read_text() if file.is_file() else ""
    lines = text[: text.rfind("\n") + 1].splitlines()
    if file.suffix == ".csv":
        return [float(row["test_accuracy"]) for row in csv.DictReader(lines) if row["test_accuracy"]]
    return [json.loads(line)["accuracy"] for line in lines]


def read() -> dict[str, list[tuple[float, float]]]:
    """The kept points of each curve."""
    points: dict[str, list[tuple[float, float]]] = {}
    with RECORD.open() as file:
        for row in csv.DictReader(file):
            points.setdefault(row["curve"], []).append((float(row["seconds"]), float(row["accuracy"])))
    return points


def draw(points: dict[str, list[tuple[float, float]]], path: Path) -> None:
    """Write the SVG on a transparent ground, so that it is legible on a light and on a dark page."""
    figure = Figure(figsize=(7.2, 4.0), layout="constrained")
    FigureCanvasSVG(figure)
    axes = figure.subplots()
    for (curve, values), colour in zip(points.items(), COLOURS, strict=True):
        axes.plot(*zip(*values, strict=True), color=colour, label=curve, linewidth=2)
    axes.set_xscale("log")
    axes.set_xlim(3, SECONDS * 1.2)
    axes.set_xticks([3, 5, 10, 20, 60], ["3", "5", "10", "20", "60"])
    axes.set_yscale("logit")  # the way from 98 to 99 % is as long as the one from 50 to 67 %
    axes.set_ylim(0.07, 0.995)
    axes.set_yticks([0.1, 0.5, 0.9, 0.98, 0.99], ["10 %", "50 %", "90 %", "98 %", "99 %"])
    axes.minorticks_off()
    axes.grid(axis="y", color=TEXT, alpha=0.3)
    axes.set_xlabel("seconds since the command was typed (two cores)", color=TEXT)
    axes.set_ylabel("test accuracy, MNIST", color=TEXT)
    axes.tick_params(colors=TEXT)
    axes.spines[["top", "right"]].set_visible(False)
    axes.spines[["left", "bottom"]].set_color(TEXT)
    figure.legend(loc="outside upper left", frameon=False, labelcolor=TEXT)  # one column: a phone shows the left half
    path.parent.mkdir(parents=True, exist_ok=True)
    with matplotlib.rc_context({"svg.fonttype": "none", "svg.hashsalt": path.stem}):
        figure.savefig(path, metadata={"Date": None, "Creator": None}, transparent=True)


if __name__ == "__main__":
    sys.exit(main())
