"""Runs on every rank: command lines of neuro one after the other in one world; rank 0 writes what each left.

mpiexec -n 3 python commands_program.py RESULTS.json '[[3, ["train", "population=8"]], [2, ["resume", "run"]]]'

The number before a command line: by so many of the ranks, which are a world of their own.
"""

import io
import json
import sys
from contextlib import redirect_stderr, redirect_stdout
from pathlib import Path

from part_of_world import first_ranks

from neuro_cli.cli.main import main
from neuro_cli.fabric.mpi import mpi_world


def left_by(line: list[str]) -> tuple[object, str, str]:
    """Exit code, output and errors of ``neuro LINE``; on ranks but the first, of waiting for what the first hands out."""
    out, err = io.StringIO(), io.StringIO()
    sys.argv = ["neuro", *line]
    with redirect_stdout(out), redirect_stderr(err):
        try:
            main()
        except SystemExit as ended:
            return ended.code, out.getvalue(), err.getvalue()
    raise AssertionError("a command ends with an exit code")


file, lines, results = Path(sys.argv[1]), json.loads(sys.argv[2]), []
for ranks, line in lines:
    with first_ranks(ranks) as takes_part:
        if takes_part:
            results.append(left_by(line))
if mpi_world().rank == 0:
    file.write_text(json.dumps(results))
