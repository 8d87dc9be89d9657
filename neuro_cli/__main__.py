"""``python -m neuro_cli``: the command ``neuro``."""

import os
import signal

from neuro_cli.broker.kinds import JOB_VARIABLE
from neuro_cli.fabric.emulation.kernel import die_with_parent

if __name__ == "__main__":
    if JOB_VARIABLE in os.environ:
        die_with_parent(signal.SIGKILL)  # a job of a sweep ends with its worker, which another one takes over
    from neuro_cli.cli import main

    main()
