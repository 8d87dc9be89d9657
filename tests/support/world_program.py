"""Program of a shared world's ranks, which serves requests from rank 0's standard input until an empty line or its end.

A request is a line of JSON: {"cwd": FOLDER, "results": FILE} and either "lines": [[3, ["train", "population=8"]], ...],
command lines of neuro, each by so many of the ranks, which are a world of their own; or "program": [PATH, ARGUMENT...].
Rank 0 writes the results of the commands to FILE, whose existence says that the request is done.
"""

import io
import json
import os
import runpy
import sys
import traceback
from contextlib import redirect_stderr, redirect_stdout
from pathlib import Path
from typing import Any

from neuro_cli.cli.main import main
from neuro_cli.fabric.mpi import mpi_world
from support.part_of_world import first_ranks

HERE = os.getcwd()


def left_by(line: list[str]) -> tuple[object, str, str]:
    """Return exit code, output and errors of ``neuro LINE``; ranks but the first wait for what rank 0 hands out."""
    out, err = io.StringIO(), io.StringIO()
    sys.argv = ["neuro", *line]
    with redirect_stdout(out), redirect_stderr(err):
        try:
            main()
        except SystemExit as ended:
            return ended.code, out.getvalue(), err.getvalue()
    raise AssertionError("a command ends with an exit code")


def forget_options() -> None:
    """Remove the options that an earlier command read from files."""
    from hydra.core.config_store import ConfigStore

    from neuro_cli.cli.options.groups import TABLES, groups

    for group in (*groups(), TABLES):
        ConfigStore.instance().repo.pop(group, None)


def run(request: dict[str, Any]) -> list[tuple[object, str, str]]:
    results = []
    if "program" in request:
        sys.argv = request["program"]
        runpy.run_path(sys.argv[0], run_name="__main__")
    for ranks, line in request.get("lines", ()):
        with first_ranks(ranks) as takes_part:
            if takes_part:
                if mpi_world().rank == 0:
                    forget_options()
                results.append(left_by(line))
    return results


def serve(request: dict[str, Any]) -> None:
    """Run the request in its folder, then restore the import path and forget the folder's modules."""
    path, folder = sys.path[:], request["cwd"]
    os.chdir(folder)
    results = run(request)
    os.chdir(HERE)
    sys.path[:] = path
    for name, module in list(sys.modules.items()):
        if str(getattr(module, "__file__", None) or "").startswith(folder + os.sep):
            del sys.modules[name]
    if mpi_world().rank == 0:
        part = Path(request["results"] + ".part")
        part.write_text(json.dumps(results))
        part.rename(request["results"])


world = mpi_world()
assert world.size == int(sys.argv[1]), "the ranks do not know each other"
while request := world.broadcast(sys.stdin.readline().strip().encode() if world.rank == 0 else b""):
    try:
        serve(json.loads(request))
    except BaseException:
        traceback.print_exc()
        world.abort(1)
