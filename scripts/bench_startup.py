"""Times commands that train nothing, and the start of training, against a bare Python and one that imports torch.

In every round each has its turn; medians of the rounds, with the least and the most: seconds of the clock, those of the
processor, which other work on the machine stretches less, and the most memory. The last line has the ratio of processor
seconds and the difference of memory, of training up to its first generation and ``import torch``, round by round.

    python scripts/bench_startup.py --rounds 10
"""

import argparse
import os
import subprocess
import sys
import tempfile
import time
from dataclasses import dataclass

from neuro_cli.bench.table import spread
from neuro_cli.launch.launcher import launcher

BEGINNING = """
import os, sys
sys.argv = ["neuro", "train", f"hydra.run.dir={os.getpid()}"]
from neuro_cli.cli.main import main
from neuro_cli.runner import options
from neuro_cli.distribution import base
def begins(*_):
    if "PMI_RANK" in os.environ or "PMIX_RANK" in os.environ:  # a rank of MPI that ends otherwise would end the others
        from mpi4py import MPI
        MPI.Finalize()
    os._exit(0)
base.Distribution.step = begins
main()
"""
TORCH, TRAINS, WORLD = "python -c 'import torch'", "neuro train, to generation 1", "the same on 4 ranks"
COMMANDS = {
    "python -c pass": ("-c", "pass"),
    "neuro --help": ("-m", "neuro_cli", "--help"),
    "neuro train --cfg job": ("-m", "neuro_cli", "train", "--cfg", "job"),
    "neuro train --help": ("-m", "neuro_cli", "train", "--help"),
    "neuro report --help": ("-m", "neuro_cli", "report", "--help"),
    TORCH: ("-c", "import torch, os; os._exit(0)"),  # ends like the next one: Python's own end takes 0.7 s with torch
    TRAINS: ("-c", BEGINNING),
    WORLD: ("-c", BEGINNING),
}


@dataclass(frozen=True)
class Cost:
    """Cost of one process: seconds of the ``clock`` and of the ``processor``, and its peak memory in ``megabytes``."""

    clock: float
    processor: float
    megabytes: float


def cost(name: str, folder: str) -> Cost:
    """Run one of COMMANDS in ``folder``; the clock and the processor are those of all its processes, the memory of the largest.

    Raises SystemExit when it fails.
    """
    ranks = (launcher(), "-n", "4") if name == WORLD else ()
    # Bytecode is kept, as in any installation; otherwise neuro alone would be compiled each time, and torch would not.
    environment = {name: value for name, value in os.environ.items() if name != "PYTHONDONTWRITEBYTECODE"}
    begun = time.perf_counter()
    with tempfile.TemporaryFile() as said:
        process = subprocess.Popen(
            [*ranks, sys.executable, *COMMANDS[name]], cwd=folder, env=environment, stdout=subprocess.DEVNULL, stderr=said
        )
        _, status, used = os.wait4(process.pid, 0)
        spent = time.perf_counter() - begun
        process.returncode = os.waitstatus_to_exitcode(status)
        if process.returncode:
            said.seek(0)
            raise SystemExit(said.read().decode())
    return Cost(spent, used.ru_utime + used.ru_stime, used.ru_maxrss / 1024)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=10)
    rounds = parser.parse_args().rounds
    costs: dict[str, list[Cost]] = {name: [] for name in COMMANDS}
    with tempfile.TemporaryDirectory() as folder:
        for name in COMMANDS:
            cost(name, folder)  # first compilations and reads do not count
        for _ in range(rounds):
            for name in COMMANDS:
                costs[name].append(cost(name, folder))
    for name, spent in costs.items():
        seconds = (spread([getattr(each, what) for each in spent], ".3f") for what in ("clock", "processor"))
        print("{:28} clock {} s, processor {} s, {} MB".format(name, *seconds, spread([each.megabytes for each in spent], ".0f")))
    pairs = list(zip(costs[TRAINS], costs[TORCH], strict=True))
    ratio = spread([one.processor / other.processor for one, other in pairs], ".2f")
    worlds = list(zip(costs[WORLD], costs[TRAINS], strict=True))
    times = (spread([getattr(a, what) / getattr(b, what) for a, b in worlds], ".2f") for what in ("clock", "processor"))
    print("{}: clock {}, processor {} x one process".format(WORLD, *times))
    print(f"{TRAINS}: {ratio} x import torch, {spread([a.megabytes - b.megabytes for a, b in pairs], '+.0f')} MB")


if __name__ == "__main__":
    main()
