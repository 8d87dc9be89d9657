"""Loop with a run folder that kills itself: python loop_program.py FOLDER GENERATIONS [GENERATION OF THE KILL]."""

import os
import signal
import sys

import torch

import neuro_cli as neuro

folder, generations = sys.argv[1], int(sys.argv[2])
kill = int(sys.argv[3]) if sys.argv[3:] else None
goal = torch.linspace(-1, 1, 6)
pace = {"checkpoint": {"every": 3}, "evaluate": {"every": 2}, "tests": {"distance": lambda point: (point() - goal).norm()}}
with neuro.Evolution(torch.zeros(6), algo="snes", population=8, threads=1, folder=folder, **pace) as es:
    while es.generation < generations:
        es.tell([-float((vector - goal).square().sum()) for vector in es.ask().vectors])
        if es.generation == kill:
            os.kill(os.getpid(), signal.SIGKILL)
