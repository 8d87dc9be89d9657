"""Worker of ``neuro bench semi_updates``: the ranks of a world train one run; rank 0 writes its accuracies.

mpiexec -n N python -m neuro_cli.bench.workers.semi_updates PLAN RESULTS
"""

import json
import sys
from pathlib import Path
from typing import Any

from neuro_cli.core.metric import ACCURACY
from neuro_cli.fabric.base import World
from neuro_cli.factory.own_code import let_import
from neuro_cli.run_folder.log import log_to
from neuro_cli.runner.loop import assemble
from neuro_cli.runner.options import Options, make_network
from neuro_cli.runner.session import guarded


def looks(config: dict[str, Any], every: int, world: World) -> list[dict[str, Any]]:
    """Accuracy on the test set after ``every`` generations, again and again, and at the end."""
    work, total = assemble(Options(config), world), config["generations"]
    found = []
    try:
        for generation in range(1, total + 1):
            work.step(generation - 1)
            if generation % every == 0 or generation == total:
                found.append({"generation": generation, ACCURACY.name: work.evaluate(generation)[ACCURACY.name]})
    finally:
        work.close()
    return found


def main() -> None:
    let_import()
    log_to(None, 0)
    plan = json.loads(Path(sys.argv[1]).read_text())
    world = make_network(plan["config"]).connect(needs_mpi=True)

    def work() -> None:
        found = looks(plan["config"], plan["every"], world)
        if world.rank == 0:
            Path(sys.argv[2]).write_text(json.dumps(found))

    sys.exit(guarded(world, work))


if __name__ == "__main__":
    main()
