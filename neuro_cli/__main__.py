"""``python -m neuro_cli``: the command ``neuro``."""

import os
import sys

# Python has put the current folder before all that is installed: nothing is to be imported from there unasked
if not sys.flags.safe_path and sys.path[:1] == [os.getcwd()] != [os.path.dirname(os.path.dirname(__file__))]:
    del sys.path[0]

import signal

from neuro_cli.broker.kinds import JOB_VARIABLE
from neuro_cli.fabric.emulation.kernel import die_with_parent

if __name__ == "__main__":
    if JOB_VARIABLE in os.environ:
        die_with_parent(signal.SIGKILL)  # a job of a sweep ends with its worker, which another one takes over
    from neuro_cli.cli import main

    main()
