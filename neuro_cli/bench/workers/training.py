"""Worker of ``neuro bench ensemble``: every rank of a world trains runs one after the other.

mpiexec -n N python -m neuro_cli.bench.workers.training PLAN RESULTS
"""

import time
from typing import Any

import numpy as np

from neuro_cli.bench.world import work_in_world
from neuro_cli.fabric.base import World
from neuro_cli.runner.loop import assemble
from neuro_cli.runner.options import Options


def trained(entry: dict[str, Any], world: World) -> dict[str, Any]:
    """Train ``entry["iterations"]`` iterations: losses where a step has one, bytes of an iteration (busiest rank), seconds.

    ``evaluations``: metrics on the test set by iteration, at every multiple of ``entry["every"]`` (0: never) and at the end.
    """
    work, total, every = assemble(Options(entry["config"]), world), entry["iterations"], entry["every"]
    losses, evaluations, seconds, bytes_moved = [], {}, 0.0, np.zeros(2)
    try:
        for iteration in range(1, total + 1):
            begun, sent, received = time.perf_counter(), world.traffic.sent, world.traffic.received
            losses.append(work.step(iteration - 1).get("train_loss"))
            seconds += time.perf_counter() - begun
            bytes_moved += world.traffic.sent - sent, world.traffic.received - received
            if every and (iteration % every == 0 or iteration == total):
                evaluations[iteration] = work.evaluate(iteration)
        sent, received = world.all_gather(bytes_moved / total, [2] * world.size).reshape(-1, 2).max(axis=0).tolist()
        moved = {"sent": sent, "received": received, "seconds": seconds, "parameters": work.parameters}
        return {"losses": losses, "evaluations": evaluations} | moved
    finally:
        work.close()


if __name__ == "__main__":
    work_in_world(lambda plan, world: [trained(entry, world) for entry in plan["entries"]])
