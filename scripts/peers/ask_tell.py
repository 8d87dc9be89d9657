"""Generations of ask and tell, by ``neuro.Evolution``, ``neuro.AskTell`` or pycma, for every line on standard input.

python ask_tell.py SETTING_AS_JSON; prints one JSON object a line: the mean seconds, by the clock and of the processor, of
GENERATIONS on the sphere after a first one, by a new search: one that has converged may have nothing to learn. ``"algo":
"pycma"`` is pycma, ``"pycma_diagonal"`` its diagonal variant, ``"asktell"`` neuro.AskTell with its own choice, cma_es.
"""

import json
import sys
import time
from collections.abc import Callable
from typing import Any

import numpy as np

GENERATIONS = 50


def neuro_generation(setting: dict[str, Any]) -> Callable[[], object]:
    """Return a function that runs a generation of an algorithm of conf/algo."""
    import torch

    import neuro_cli as neuro

    if setting["algo"] == "asktell":
        search = neuro.AskTell(np.ones(setting["dimensions"]), population=setting["population"], minimise=True)
        return lambda: search.tell([float(x @ x) for x in search.ask()])
    evolution = neuro.Evolution(torch.ones(setting["dimensions"]), algo=setting["algo"], population=setting["population"])
    return lambda: evolution.tell([-float(x @ x) for x in evolution.ask().vectors.numpy()])


def pycma_generation(setting: dict[str, Any]) -> Callable[[], object]:
    """Return a function that runs a generation of pycma."""
    import cma

    options = {"popsize": setting["population"], "seed": 1, "verbose": -9, "CMA_diagonal": setting["algo"] == "pycma_diagonal"}
    strategy = cma.CMAEvolutionStrategy(np.ones(setting["dimensions"]), 0.5, options)

    def generation() -> None:
        points = strategy.ask()
        strategy.tell(points, [float(x @ x) for x in points])

    return generation


def main() -> None:
    setting = json.loads(sys.argv[1])
    search = pycma_generation if setting["algo"].startswith("pycma") else neuro_generation
    for _ in sys.stdin:
        generation = search(setting)
        generation()
        start, used = time.perf_counter(), time.process_time()
        for _ in range(GENERATIONS):
            generation()
        seconds, processor = time.perf_counter() - start, time.process_time() - used
        print(json.dumps({"seconds": seconds / GENERATIONS, "processor_seconds": processor / GENERATIONS}), flush=True)


if __name__ == "__main__":
    main()
