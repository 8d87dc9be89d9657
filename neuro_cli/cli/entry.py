"""Entry point of the console script: Ctrl-C while the command still loads is one line too, from the first import on."""

import gc
import sys

from neuro_cli.cli import ctrl_c
from neuro_cli.core.exit_codes import INTERRUPTED


def main() -> None:
    ctrl_c.listen()
    try:
        from neuro_cli.cli.main import main as command
        from neuro_cli.core.machine import process

        process.own = True
        command()
    except BaseException as error:
        if not isinstance(error, KeyboardInterrupt) and (isinstance(error, SystemExit) or not ctrl_c.interrupted()):
            raise
        print("neuro: interrupted", file=sys.stderr, flush=True)
        sys.exit(INTERRUPTED)
    finally:
        # Python ends with a search for cycles through every object of torch: 0.7 s of the processor, and nothing comes of it
        gc.freeze()
