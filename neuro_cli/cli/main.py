"""Command ``neuro``: calls the verb, and ends with its exit code and at most one line of error.

    neuro train algo=snes population=128        neuro resume RUN        neuro doctor

Under an MPI launcher rank 0 runs this; the other ranks wait for its jobs.
"""

import logging
import os
import select
import shutil
import signal
import sys
import textwrap

from neuro_cli.cli import ctrl_c
from neuro_cli.cli.registry import listed, verb
from neuro_cli.core.errors import UserError, interrupted, report
from neuro_cli.core.exit_codes import BAD_INPUT, INTERRUPTED
from neuro_cli.core.machine.current_folder import refuse_settings
from neuro_cli.core.messages.verbosity import taken_from
from neuro_cli.core.version import __version__
from neuro_cli.fabric.bare_srun import foreign_start
from neuro_cli.fabric.start import launched, launched_world
from neuro_cli.launch import lock, slurm_job
from neuro_cli.runner import stop_signals

WORLD_VERBS = ("train", "resume", "scale", "bench")  # verbs whose processes, started together, would be one world


def help_text() -> str:
    from neuro_cli.cli.options.groups import groups

    verbs = "\n".join(_entry(f"  {name:10s} ", text) for name, text in listed().items())
    options = "\n".join(_entry(f"  {name:14s} ", ", ".join(values)) for name, values in groups().items() if values)
    examples, more = "\n".join(_example(*each) for each in EXAMPLES.items()), "\n".join(_entry("", text) for text in MORE)
    first = _entry("", f"neuro {__version__}: distributed neuroevolution, configured with Hydra")
    usage = _entry("usage: ", "neuro VERB [group=option ...] [key=value ...]")
    chosen = _entry("", "groups and their options (neuro VERB --help lists those of a verb, with all its keys)")
    parts = first, usage, f"verbs\n{verbs}", f"{chosen}\n{options}", f"examples\n{examples}", more
    return "\n\n".join(parts)


EXAMPLES = {
    "neuro train": "a small network on the bundled digits",
    "neuro train +algo=snes model=MNIST_30K task=mnist task.download=true": "",
    "mpiexec -n 2 neuro train": "the same on two ranks; or: neuro train ranks=2",
    "neuro train -m algo=openai_es,snes seed=1,2": "a sweep",
    "neuro train -m hydra/launcher=slurm seed=1,2": "the same sweep with its jobs on SLURM",
    "neuro resume outputs/train/<stamp>": "",
}
MORE = (
    "-q prints warnings and errors only, -v also log lines. `neuro completion bash` (zsh, fish) prints a script for your shell.",
    "An error is one line that says what to change. NEURO_DEBUG=1 adds the traceback.",
    "Exit codes: 0 done, 2 bad input, 1 failed, 130 interrupted.",
)


def _example(command: str, text: str) -> str:
    """Return an example, and what it does behind it; on a narrow terminal below it, so that the command stays in one piece."""
    if not text or shutil.get_terminal_size((sys.maxsize, 0)).columns >= 100:
        return f"  {command:54s} {text}".rstrip()
    return f"  {command}\n" + _entry("      ", text)


def _entry(name: str, text: str) -> str:
    """Return a line of a list, on a terminal broken between words."""
    width = shutil.get_terminal_size((sys.maxsize, 0)).columns
    later = " " * min(len(name), width // 4)
    return textwrap.fill(text, width, initial_indent=name, subsequent_indent=later, break_on_hyphens=False)


def dispatch(arguments: list[str]) -> int:
    """Run one command line on rank 0 and return its exit code."""
    if arguments[:1] == ["help"] and len(arguments) > 1:
        return dispatch([*arguments[1:], "--help"])
    if not arguments or arguments[0] in ("--help", "-h", "help"):
        print(help_text())
        return 0
    if "--version" in arguments:
        print(f"neuro {__version__}")
        return 0
    name, rest = arguments[0], taken_from(arguments[1:])
    foreign = foreign_start() if name in WORLD_VERBS else None
    if foreign is not None:
        if foreign.rank:
            return BAD_INPUT  # the first of them says so
        raise foreign.refusal()
    return verb(name)(rest)


def _reported(error: Exception) -> int:
    from neuro_cli.cli.error_lines import mendable

    return report(mendable(error))


def _nobody_reads() -> int:
    """Return the exit code of a shell when the reader of our output has gone (``neuro --help | head``), else 0."""
    try:
        terminal = sys.stdout.fileno()
        poll = select.poll()
    except (OSError, AttributeError):  # a stream of a program that calls main(); a system without poll
        return 0
    poll.register(terminal, 0)
    if not any(event & select.POLLERR for _, event in poll.poll(0)):
        return 0
    os.dup2(os.open(os.devnull, os.O_WRONLY), terminal)  # Python flushes once more at its end
    return 128 + signal.SIGPIPE


def main() -> None:
    """Run the command line of this process. Entry point of the console script."""
    logging.raiseExceptions = False  # a log line that finds no room on the disk must not print a traceback
    world = None
    code: int = 1
    stop_signals.forget()
    if slurm_job.in_job():
        signal.signal(signal.SIGUSR2, stop_signals.hear)  # SLURM may send it while a run is still loading
    try:
        refuse_settings()  # torch, numba and MPI are loaded later
        world = launched_world() if launched() else None
    except UserError as error:
        sys.exit(report(error))
    if world is not None and world.rank > 0:
        from neuro_cli.runner.session import follow

        try:
            sys.exit(follow(world))
        except KeyboardInterrupt:  # rank 0 says so
            sys.exit(INTERRUPTED)
    try:
        code = dispatch(sys.argv[1:])
        sys.stdout.flush()
    except SystemExit as ended:
        code = ended.code if isinstance(ended.code, int) else int(ended.code is not None)
    except BrokenPipeError as error:
        code = _nobody_reads() or report(error)
    except KeyboardInterrupt:
        code = interrupted()
        if world is not None and world.size > 1:
            world.abort(code)  # the others wait for us somewhere
    except Exception as error:
        code = interrupted() if ctrl_c.interrupted() else _reported(error)
    finally:
        lock.drop()
        if world is not None and world.size > 1:
            from neuro_cli.runner.session import dismiss

            dismiss(world, code)
    sys.exit(code)
