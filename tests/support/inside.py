"""Runs command lines inside the test's own process, or many in one world: a start costs seconds, most of them for torch."""

import io
import logging
import os
import runpy
import sys
from collections.abc import Sequence
from contextlib import redirect_stderr, redirect_stdout
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from hydra.core.config_store import ConfigStore

from neuro_cli.cli.main import main
from neuro_cli.cli.options.groups import TABLES, groups
from neuro_cli.cli.overrides import check
from neuro_cli.cli.overrides.composition import compose_whole
from neuro_cli.run_folder.log import leave
from support.composing import kept_choices, kept_whole
from support.forked import ready_python
from support.shared_world import commands_in_world
from support.worlds import SET_BY_IMPORTS, own_mpi

DROPPED = ("NEURO_", "PMI_", "PMIX_", "OMPI_", *SET_BY_IMPORTS)


@dataclass(frozen=True)
class Done:
    """Exit code and output of a finished command."""

    returncode: int
    stdout: str
    stderr: str


def close_logs() -> None:
    """Close the log files, as the end of a process does."""
    leave()
    ours = logging.getLogger("neuro_cli")
    for handler in list(ours.handlers):
        ours.removeHandler(handler)
        handler.close()
    ours.propagate = True


def neuro_inside(*arguments: str, cwd: Path, fresh: bool = False, **environment: str) -> Done:
    """Run ``neuro ARGUMENTS`` in the folder ``cwd``, then restore working directory, environment and import path.

    ``fresh``: processes that the command starts import all themselves, for tests of their memory.
    """
    out, err = io.StringIO(), io.StringIO()
    close_logs()  # a process of its own would begin without the test's logs
    for group in (*groups(), TABLES):  # options that an earlier command read from files
        ConfigStore.instance().repo.pop(group, None)
    with pytest.MonkeyPatch.context() as patch, redirect_stdout(out), redirect_stderr(err):
        patch.chdir(cwd)
        for name in [name for name in os.environ if name.startswith(DROPPED)]:
            patch.delenv(name)
        for name, value in ({"HYDRA_FULL_ERROR": "", "NEURO_CURVES": "0"} | environment).items():
            patch.setenv(name, value)
        patch.setattr(sys, "argv", ["neuro", *arguments])
        patch.setattr(sys, "path", sys.path[:])
        if not fresh:
            patch.setattr(sys, "executable", ready_python())
        if check.compose_whole is compose_whole:  # unless the test composes otherwise
            patch.setattr(check, "compose_whole", kept_whole)
            patch.setattr(check, "compose_choices", kept_choices)
        patch.setattr(logging, "raiseExceptions", True)
        with pytest.raises(SystemExit) as ended:
            main()
    close_logs()
    assert isinstance(ended.value.code, int)
    return Done(ended.value.code, out.getvalue(), err.getvalue())


def script_inside(path: Path, *arguments: str, cwd: Path) -> Done:
    """Run ``python PATH ARGUMENTS`` in the folder ``cwd``, without the seconds in which a process would import torch."""
    out, err = io.StringIO(), io.StringIO()
    with pytest.MonkeyPatch.context() as patch, redirect_stdout(out), redirect_stderr(err):
        patch.chdir(cwd)
        patch.setattr(sys, "argv", [str(path), *arguments])
        code: Any = 0
        try:
            runpy.run_path(str(path), run_name="__main__")
        except SystemExit as ended:
            code = ended.code
    if isinstance(code, str):  # Python prints such a code and exits with 1
        return Done(1, out.getvalue(), err.getvalue() + code + "\n")
    return Done(code or 0, out.getvalue(), err.getvalue())


def neuro_in_one_world(*lines: Sequence[str], cwd: Path, ranks: int | Sequence[int]) -> list[Done]:
    """Run ``neuro LINE`` for each of ``lines``, one after the other, by ranks of the shared world.

    ``ranks``: one number for all lines, or one for each. The first ranks of a larger world act as a world of their own.
    """
    on = [ranks] * len(lines) if isinstance(ranks, int) else ranks
    return [Done(*left) for left in commands_in_world(list(zip(on, lines, strict=True)), cwd, own_mpi())]


def well(done: Any) -> Any:
    """Return a finished command that has succeeded. Raises AssertionError with its error text."""
    assert done.returncode == 0, done.stderr
    return done


def one_line(done: Done) -> str:
    """Return the error text of a refused command, which is one line with exit code 2."""
    assert done.returncode == 2, done.stderr
    (line,) = done.stderr.splitlines()
    assert line.startswith("neuro: error: ")
    return line.removeprefix("neuro: error: ")
