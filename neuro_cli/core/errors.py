"""Errors that a user can mend: one line, no traceback, exit code 2."""

import logging
import os
import sys
import traceback
from collections.abc import Iterator
from contextlib import contextmanager

from neuro_cli.core.exit_codes import BAD_INPUT, FAILED, INTERRUPTED

log = logging.getLogger(__name__)

LONGEST_WORD, SHOWN = 400, 120  # characters of a word in a message, above which so many of them are shown


class UserError(Exception):
    """Bad input or a missing prerequisite. The message is one line that names the config key, its value and what is allowed."""

    def _render_traceback_(self, *_: object) -> list[str]:
        """Return the lines that a notebook shows, by IPython's name of this: the message, with NEURO_DEBUG=1 the traceback."""
        text = "".join(traceback.format_exception(self)) if _debugs() else f"{type(self).__name__}: {one_line(str(self))}"
        return text.splitlines()


class ConfigError(UserError, ValueError):
    """Error of a config value out of its range, in one line: ``key``, ``=``, ``value``, ``: ``, what is ``allowed``."""

    def __init__(self, key: str, value: object, allowed: str) -> None:
        super().__init__(f"{key}={value}: {allowed}")


class CandidateError(UserError):
    """Error of a candidate's fitness that is not a number. Every rank raises it in the same generation."""


@contextmanager
def no_exit() -> Iterator[None]:
    """Turn SystemExit into an error: a user's module could otherwise end a command without results but with exit code 0."""
    try:
        yield
    except SystemExit as ended:
        raise RuntimeError(f"the code of a model or a task ended the process (SystemExit: {ended.code})") from ended


@contextmanager
def only_warned(what: str) -> Iterator[None]:
    """Turn errors of ``what`` into warnings: side work (a plot, a tracker) must not lose a result that exists."""
    try:
        yield
    except Exception as error:  # a library raises errors of its own
        log.debug("", exc_info=error)
        log.warning("%s: left out (%s: %s); the rest is complete", what, type(error).__name__, one_line(str(error))[:300])


def headline(error: str) -> str:
    """Return the most telling line of an error's text: the last of a traceback, the first of any other."""
    lines = error.strip().splitlines() or [""]
    return lines[-1 if lines[0].startswith("Traceback") else 0]


def interrupted() -> int:
    """Print that Ctrl-C ended the command, and return the exit code."""
    print("neuro: interrupted", file=sys.stderr, flush=True)
    return INTERRUPTED


def printable(text: str) -> str:
    """Escape what a terminal obeys in ``text``: control characters, also of the direction of writing, and line ends."""
    return text if text.isprintable() else "".join(one if one.isprintable() else repr(one)[1:-1] for one in text)


def lines_apart(text: str) -> str:
    """Return ``text`` as :func:`printable` lines, all but the first indented: none poses as a line of the log."""
    return "\n    ".join(printable(line.expandtabs()) for line in text.splitlines())


def one_line(text: str) -> str:
    """Return ``text`` as one :func:`printable` line; a very long word is cut."""
    words = printable(" ".join(text.split())).split(" ")
    return " ".join(word if len(word) < LONGEST_WORD else f"{word[:SHOWN]}... ({len(word)} characters)" for word in words)


def note(error: BaseException) -> str:
    """Write ``error`` to the log, where a report reads it, and return its text as one line."""
    log.debug("", exc_info=error)
    text = one_line(str(error))
    log.info("failed: %s", text if isinstance(error, UserError) else f"{type(error).__name__}: {text}")
    return text


def _debugs() -> bool:
    return bool(os.environ.get("NEURO_DEBUG"))


def report(error: BaseException) -> int:
    """Print ``error`` as one line (a traceback too with NEURO_DEBUG=1) and return the exit code."""
    debug = _debugs()
    if debug:
        traceback.print_exception(error)
    text = note(error)
    if isinstance(error, UserError):
        print(f"neuro: error: {text}", file=sys.stderr, flush=True)
        return BAD_INPUT
    hint = "" if debug else " (NEURO_DEBUG=1 shows where)"
    print(f"neuro: error: {type(error).__name__}: {text}{hint}", file=sys.stderr, flush=True)
    return FAILED
