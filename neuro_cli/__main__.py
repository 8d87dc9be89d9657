"""``python -m neuro_cli``: the command ``neuro``."""

import os
import sys

# Python has put the current folder before all that is installed: nothing is to be imported from there unasked
if not sys.flags.safe_path and sys.path[:1] == [os.getcwd()] != [os.path.dirname(os.path.dirname(__file__))]:
    del sys.path[0]

from neuro_cli.cli.entry import main

if __name__ == "__main__":
    main()
