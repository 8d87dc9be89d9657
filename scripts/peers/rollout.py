"""Environment steps by a population of policies, or bare ones with a constant action, for every line on standard input.

python rollout.py SETTING_AS_JSON; prints one JSON object a line: the seconds of 1,000 steps on one core. ``"overrides"``: those
of ``neuro train``; ``"bare": true``: one environment alone, with the first action that its space draws.
"""

import json
import sys
import time
from collections.abc import Callable
from typing import Any

import torch

from neuro_cli.cli.compose import composed_training
from neuro_cli.fabric.base import SingleProcess
from neuro_cli.runner.build import build
from neuro_cli.runner.options import Options
from neuro_cli.task.reinforcement import Reinforcement

BARE = 20_000  # steps of the bare environment


def population_steps(parts: Any) -> Callable[[int], int]:
    """Return a function that scores the members of a generation and counts the steps; sampling is included."""
    task, members = parts.task, range(parts.config.population)
    column = task.score_names.index("steps")

    def play(generation: int) -> int:
        scores = parts.distribution.job.scorer.scores(parts.algo.ask(generation), generation, members)
        return round(float(scores[:, column].sum()) * task.episodes)

    parts.distribution.step(0)  # compiles, makes the environments, and gives the statistics something to normalise by
    return play


def bare_steps(task: Reinforcement) -> Callable[[int], int]:
    """Return a function that steps one environment with a constant action."""
    environment = task.maker.make()
    environment.action_space.seed(0)
    action = environment.action_space.sample()

    def play(_: int) -> int:
        environment.reset(seed=0)
        for number in range(BARE):
            _, _, terminated, truncated, _ = environment.step(action)
            if terminated or truncated:
                environment.reset(seed=number)
        return BARE

    return play


def main() -> None:
    setting = json.loads(sys.argv[1])
    torch.set_num_threads(1)
    parts = build(Options(composed_training([*setting["overrides"], "threads=1"]).config), SingleProcess())
    assert isinstance(parts.task, Reinforcement)
    play = bare_steps(parts.task) if setting["bare"] else population_steps(parts)
    for number, _ in enumerate(sys.stdin, 1):
        start, used = time.perf_counter(), time.process_time()
        steps = play(number)
        seconds, processor = time.perf_counter() - start, time.process_time() - used
        print(json.dumps({"seconds": seconds * 1000 / steps, "processor_seconds": processor * 1000 / steps}), flush=True)


if __name__ == "__main__":
    main()
