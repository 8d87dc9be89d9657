"""Picture of ``neuro bench reinforcement``: mean return over minutes of every trial, a panel for each goal."""

from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path

from neuro_cli.core.metric import RETURN
from neuro_cli.run_folder.palette import BLUE, GREEN, GREY, ORANGE, PURPLE, VERMILION
from neuro_cli.run_folder.plot import Line, Panel, draw

COLOURS = {"dises": BLUE, "evolve": GREEN, "openai_es": VERMILION, "ars": PURPLE, "ddpg": ORANGE}
WIDE = 3  # panels side by side

Look = Mapping[str, str]


def plot(trials: Sequence[Mapping[str, str]], looks: Iterable[Look], stem: Path) -> None:
    """Draw ``stem``.svg and .png. ``trials``: identities; ``looks``: rows of the curves' file, of other trials too."""
    curves: dict[tuple[str, ...], list[Look]] = {_key(trial): [] for trial in trials}
    names = list(trials[0])
    for look in looks:
        key = tuple(look[name] for name in names)
        if key in curves and look[RETURN.name]:  # a torn line has none
            curves[key].append(look)
    goals = dict.fromkeys((trial["task"], trial["goal"]) for trial in trials)
    panels = [
        _panel(*goal, [(trial, curves[_key(trial)]) for trial in trials if (trial["task"], trial["goal"]) == goal])
        for goal in goals
    ]
    draw(panels, stem, columns=min(WIDE, len(panels)))


def _panel(task: str, goal: str, looks: Sequence[tuple[Mapping[str, str], Sequence[Look]]]) -> Panel:
    """Return the curves of one goal's trials, with a dashed line at its height."""
    minutes = max(float(trial["budget_minutes"]) for trial, _ in looks) * 1.02
    lines = [
        Line(
            [float(look["minute"]) for look in some], [float(look[RETURN.name]) for look in some], trial["column"],
            COLOURS[trial["column"]], marker=".", width=1.1,
        )
        for trial, some in looks
    ]  # fmt: skip
    options = {"title": f"{task} to {float(goal):g}", "xlabel": "minutes", "ylabel": RETURN.label, "xlim": (0, minutes)}
    height = Line((0, minutes), [float(goal)] * 2, "goal", GREY, "--", width=0.9)
    return Panel([*lines, height], options, height=3.2)


def _key(trial: Mapping[str, str]) -> tuple[str, ...]:
    return tuple(trial.values())
