"""Measurements in a world of ranks: a worker module reads a plan and writes its results, both JSON files of rank 0."""

import json
import sys
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from neuro_cli.fabric.base import World
from neuro_cli.fabric.network import Network
from neuro_cli.factory.instantiate import make
from neuro_cli.factory.own_code import let_import
from neuro_cli.launch.launcher import world_start
from neuro_cli.run_folder.log import log_to
from neuro_cli.runner.session import guarded


def measured_in_world(module: str, plan: Mapping[str, Any], ranks: int, folder: Path) -> Any:
    """Run the worker ``module`` in a world of ``ranks`` ranks and return its results; ``folder`` keeps them and the plan.

    ``plan["fabric"]``: config of the network. Raises RuntimeError when the world fails.
    """
    network = make(plan, "fabric", Network)
    folder.mkdir(parents=True)
    (folder / "plan.json").write_text(json.dumps(plan, indent=1))
    files = [folder / name for name in ("plan.json", "results.json")]
    code = world_start(ranks, [sys.executable, "-P", "-m", module, *map(str, files)], network).run()
    if code or not files[1].exists():
        raise RuntimeError(f"the world of {ranks} ranks on {network.name} ended with exit code {code} before all was measured")
    return json.loads(files[1].read_text())


def work_in_world(measure: Callable[[dict[str, Any], World], Any]) -> None:
    """Run a worker: every rank calls ``measure`` with the plan and its world; rank 0 writes what it returns."""
    let_import()
    log_to(None, 0)
    plan = json.loads(Path(sys.argv[1]).read_text())
    network = make(plan, "fabric", Network)
    world = network.connect(needs_mpi=True)
    network.describe(world)

    def work() -> None:
        results = measure(plan, world)
        world.refuse_shortcut()
        if world.rank == 0:
            Path(sys.argv[2]).write_text(json.dumps(results))

    sys.exit(guarded(world, work))
