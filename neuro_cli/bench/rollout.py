"""``neuro bench rollout``: environment steps per second of scoring a population, against the bare environment on one core.

Two references, each one environment stepped alone: with random actions drawn beforehand, and with the very episodes and
actions of the population, so that the difference is neuro's overhead and not the physics.

    neuro bench rollout task=half_cheetah model=mlp_policy population=16
"""

import statistics
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

from neuro_cli.bench.config import BenchConfig
from neuro_cli.bench.table import ratios, show, spread, write
from neuro_cli.core.errors import UserError
from neuro_cli.fabric.base import SingleProcess
from neuro_cli.runner.build import Parts, build
from neuro_cli.runner.options import Options
from neuro_cli.task.reinforcement import Reinforcement
from neuro_cli.task.reinforcement.actions import actions_of
from neuro_cli.task.reinforcement.episodes import EpisodeSchedule
from neuro_cli.task.reinforcement.policies import Policies

Actions = list[list[Any]]  # actions of every episode, step by step


class Recorder:
    """Policies that record their actions, by policy and episode."""

    def __init__(self, policies: Policies, plan: EpisodeSchedule) -> None:
        self._policies = policies
        self._episode = {key: j for j, key in enumerate(zip(plan.policies.tolist(), plan.places.tolist(), strict=True))}
        self.outputs: list[list[np.ndarray]] = [[] for _ in plan.seeds]

    def act(self, observations: np.ndarray, which: np.ndarray, places: np.ndarray) -> np.ndarray:
        outputs = self._policies.act(observations, which, places)
        for row, key in zip(outputs, zip(which.tolist(), places.tolist(), strict=True), strict=True):
            self.outputs[self._episode[key]].append(row.copy())
        return outputs


def bench_rollout(config: BenchConfig, run: Path) -> None:
    """Measure, print a table and write rollout.csv. Raises UserError."""
    parts = build(Options(config.plain | {"threads": 1}), SingleProcess())
    task = parts.task
    if not isinstance(task, Reinforcement):
        raise UserError("what=rollout: it needs a task with environments, for example task=lunar_lander model=mlp_policy")
    parts.distribution.step(0)  # compiles, makes the environments, and gives the statistics something to normalise by
    rows: list[dict[str, Any]] = []
    for number in range(1, config.repeats + 1):
        plan, actions = recorded(parts, number)
        steps = sum(map(len, actions))
        work: dict[str, Callable[[], None]] = {
            "neuro": lambda number=number: score(parts, number),  # type: ignore[misc]
            "random actions": random_actions(task, steps),
            "the same actions": the_same(task, plan, actions),
        }
        for system, function in work.items():
            start = time.perf_counter()
            function()
            seconds = time.perf_counter() - start
            rows.append(
                {"system": system, "round": number, "steps": steps, "seconds": seconds, "steps_per_second": steps / seconds}
            )
    parts.threads.close()
    write(run / "rollout.csv", rows, 1)
    rates = {row["system"]: [r["steps_per_second"] for r in rows if r["system"] == row["system"]] for row in rows}
    table = [
        (system, f"{statistics.median(values):,.0f}", spread(ratios(rates["neuro"], values))) for system, values in rates.items()
    ]
    title = f"{task.id}: {config.population} members, {parts.layout.size} parameters, {task.environments} environments"
    show(title, ("steps by", "steps/s", "neuro's rate over it"), table, 1, run / "rollout.csv")


def score(parts: Parts, generation: int) -> None:
    """Score the members of a generation, sampling and compilation of policies included."""
    parts.distribution.job.scorer.scores(parts.algo.ask(generation), generation, range(parts.config.population))  # type: ignore[attr-defined]


def recorded(parts: Parts, generation: int) -> tuple[EpisodeSchedule, Actions]:
    """Return the episodes of a generation, and every action in them."""
    task = parts.task
    assert isinstance(task, Reinforcement)
    caught: list[tuple[EpisodeSchedule, Recorder]] = []
    play = task.play

    def watch(plan: EpisodeSchedule, policies: Policies, normaliser: Any) -> Any:
        caught.append((plan, Recorder(policies, plan)))
        return play(plan, caught[-1][1], normaliser)

    task.play = watch  # type: ignore[method-assign]
    try:
        score(parts, generation)
    finally:
        del task.play
    actions = [list(actions_of(task.spaces, np.array(outputs))[0]) for _, recorder in caught for outputs in recorder.outputs]
    plans = [plan for plan, _ in caught]
    together = EpisodeSchedule(
        *(np.concatenate([getattr(plan, name) for plan in plans]) for name in ("seeds", "policies", "places"))
    )
    return together, actions


def random_actions(task: Reinforcement, steps: int) -> Callable[[], None]:
    environment = task.maker.make()
    environment.action_space.seed(0)
    drawn = [environment.action_space.sample() for _ in range(steps)]

    def work() -> None:
        environment.reset(seed=0)
        for number, action in enumerate(drawn):
            _, _, terminated, truncated, _ = environment.step(action)
            if terminated or truncated:
                environment.reset(seed=number)
        environment.close()

    return work


def the_same(task: Reinforcement, plan: EpisodeSchedule, actions: Actions) -> Callable[[], None]:
    environments = [task.maker.make() for _ in (plan.seeds if task.anew else [0])]

    def work() -> None:
        for number, seed in enumerate(plan.seeds):
            environment = environments[number % len(environments)]
            environment.reset(seed=int(seed))
            for action in actions[number]:
                environment.step(action)

    return work
