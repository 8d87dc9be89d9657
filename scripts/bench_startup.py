"""How soon commands that train nothing are done: ``neuro --help`` and ``neuro train --cfg job``, against a bare Python.

In every round each has its turn; medians of the rounds, with the least and the most. Seconds of the clock, and those of the
processor, which other work on the machine does not stretch.

    python scripts/bench_startup.py --rounds 10
"""

import argparse
import resource
import statistics
import subprocess
import sys
import time

COMMANDS = {
    "python -c pass": ("-c", "pass"),
    "neuro --help": ("-m", "neuro_cli", "--help"),
    "neuro train --cfg job": ("-m", "neuro_cli", "train", "--cfg", "job"),
    "neuro train --help": ("-m", "neuro_cli", "train", "--help"),
    "neuro report --help": ("-m", "neuro_cli", "report", "--help"),
}


def seconds(arguments: tuple[str, ...]) -> tuple[float, float]:
    """Seconds of the clock and of the processor that one process takes. Raises SystemExit when it fails."""
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    begun = time.perf_counter()
    done = subprocess.run([sys.executable, *arguments], capture_output=True, text=True)
    spent = time.perf_counter() - begun
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    if done.returncode:
        raise SystemExit(done.stderr)
    return spent, after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime


def spread(values: list[float]) -> str:
    """Median, least and most."""
    return f"{statistics.median(values):.3f} s ({min(values):.3f} to {max(values):.3f})"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=10)
    rounds = parser.parse_args().rounds
    for arguments in COMMANDS.values():
        seconds(arguments)  # what is compiled or read for the first time does not count
    times: dict[str, list[tuple[float, float]]] = {name: [] for name in COMMANDS}
    for _ in range(rounds):
        for name, arguments in COMMANDS.items():
            times[name].append(seconds(arguments))
    for name, spent in times.items():
        clock, processor = (list(column) for column in zip(*spent, strict=True))
        print(f"{name:24} clock {spread(clock)}, processor {spread(processor)}")


if __name__ == "__main__":
    main()
