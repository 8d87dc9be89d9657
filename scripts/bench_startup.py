"""How soon commands that train nothing are done: ``neuro --help`` and ``neuro train --cfg job``, against a bare Python.

In every round each has its turn; medians of the rounds, with the least and the most.

    python scripts/bench_startup.py --rounds 10
"""

import argparse
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


def seconds(arguments: tuple[str, ...]) -> float:
    """Wall time of one process. Raises SystemExit when it fails."""
    begun = time.perf_counter()
    done = subprocess.run([sys.executable, *arguments], capture_output=True, text=True)
    spent = time.perf_counter() - begun
    if done.returncode:
        raise SystemExit(done.stderr)
    return spent


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=10)
    rounds = parser.parse_args().rounds
    for arguments in COMMANDS.values():
        seconds(arguments)  # what is compiled or read for the first time does not count
    times: dict[str, list[float]] = {name: [] for name in COMMANDS}
    for _ in range(rounds):
        for name, arguments in COMMANDS.items():
            times[name].append(seconds(arguments))
    for name, spent in times.items():
        print(f"{name:24} {statistics.median(spent):.3f} s ({min(spent):.3f} to {max(spent):.3f})")


if __name__ == "__main__":
    main()
