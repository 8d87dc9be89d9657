"""Seconds of an environment step, by a generation of neuro or a plain loop of gymnasium, for every line on standard input.

python rollout.py SETTING_AS_JSON; prints one JSON object a line. ``"bare": true`` is the loop, with one action for all steps.
"""

import json
import sys
import time
from collections.abc import Callable
from typing import Any

STEPS = 20_000  # of the loop


def neuro_step(setting: dict[str, Any]) -> Callable[[], float]:
    """Return a function that runs a generation, noise and update included."""
    from neuro_cli.cli.compose import composed_training
    from neuro_cli.fabric.base import SingleProcess
    from neuro_cli.runner.loop import assemble
    from neuro_cli.runner.options import Options

    config = composed_training([*setting["overrides"], f"threads={setting['threads']}"]).config
    work = assemble(Options(config), SingleProcess())
    generations = iter(range(10**9))

    def step() -> float:
        start, row = time.perf_counter(), work.step(next(generations))
        return (time.perf_counter() - start) / float(row["environment_steps"] or 0)

    return step


def bare_step(setting: dict[str, Any]) -> Callable[[], float]:
    """Return a function that steps one environment alone."""
    import gymnasium

    environment = gymnasium.make(setting["id"])
    environment.action_space.seed(0)
    action = environment.action_space.sample()

    def step() -> float:
        start = time.perf_counter()
        environment.reset(seed=0)
        for number in range(STEPS):
            _, _, terminated, truncated, _ = environment.step(action)
            if terminated or truncated:
                environment.reset(seed=number)
        return (time.perf_counter() - start) / STEPS

    return step


def main() -> None:
    setting = json.loads(sys.argv[1])
    step = (bare_step if setting["bare"] else neuro_step)(setting)
    for _ in sys.stdin:
        print(json.dumps({"seconds": step()}), flush=True)


if __name__ == "__main__":
    main()
