"""Worker of ``neuro bench ensemble``: every rank of a world trains ensembles one after the other; losses and bytes are recorded.

mpiexec -n N python -m neuro_cli.bench.workers.ensemble PLAN RESULTS
"""

import json
import sys
import time
from pathlib import Path
from typing import Any

import numpy as np

from neuro_cli.fabric.base import World
from neuro_cli.factory.own_code import let_import
from neuro_cli.run_folder.log import log_to
from neuro_cli.runner.loop import assemble
from neuro_cli.runner.options import Options, make_network
from neuro_cli.runner.session import guarded


def run_entry(entry: dict[str, Any], world: World) -> dict[str, Any]:
    """Run an entry: losses of all iterations, bytes of one (busiest rank), seconds, parameters; test metrics where asked for."""
    work = assemble(Options(entry["config"]), world)
    try:
        begun, sent, received = time.perf_counter(), world.traffic.sent, world.traffic.received
        losses = [work.step(iteration)["train_loss"] for iteration in range(entry["iterations"])]
        seconds = time.perf_counter() - begun
        own = np.array([world.traffic.sent - sent, world.traffic.received - received], np.float64) / entry["iterations"]
        moved = world.all_gather(own, [2] * world.size).reshape(-1, 2).max(axis=0)
        metrics = work.evaluate(entry["iterations"]) if entry["look"] else {}
        return {
            "losses": losses,
            "sent": float(moved[0]),
            "received": float(moved[1]),
            "seconds": seconds,
            "parameters": work.parameters,
            "metrics": metrics,
        }
    finally:
        work.close()


def main() -> None:
    let_import()
    log_to(None, 0)
    plan = json.loads(Path(sys.argv[1]).read_text())
    network = make_network(plan)
    world = network.connect(needs_mpi=True)

    def work() -> None:
        results = [run_entry(entry, world) for entry in plan["entries"]]
        if world.rank == 0:
            Path(sys.argv[2]).write_text(json.dumps(results))

    sys.exit(guarded(world, work))


if __name__ == "__main__":
    main()
