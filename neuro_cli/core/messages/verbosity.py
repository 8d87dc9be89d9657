"""Amount that a command prints: -q (warnings and errors), the default, -v (log lines too). Ranks that it starts inherit it."""

import os

from neuro_cli.core.errors import printable

VARIABLE = "NEURO_VERBOSITY"
QUIET, VERBOSE = "quiet", "verbose"
FLAGS = {"-q": QUIET, "--quiet": QUIET, "-v": VERBOSE, "--verbose": VERBOSE}


def taken_from(arguments: list[str]) -> list[str]:
    """Strip the flags from ``arguments``; the last flag sets the verbosity from now on."""
    for text in arguments:
        if text in FLAGS:
            os.environ[VARIABLE] = FLAGS[text]
    return [text for text in arguments if text not in FLAGS]


def quiet() -> bool:
    return os.environ.get(VARIABLE) == QUIET


def verbose() -> bool:
    return os.environ.get(VARIABLE) == VERBOSE


def say(text: str) -> None:
    """Print a line, unless the command is quiet (``-q``)."""
    if not quiet():
        print(printable(text), flush=True)
