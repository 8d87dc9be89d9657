"""Picture of ``neuro bench reinforcement``: mean return over minutes of every trial, a panel for each goal."""

import math
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path

import matplotlib
from matplotlib.axes import Axes
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure

from neuro_cli.core.metric import RETURN
from neuro_cli.run_folder.palette import BLUE, GREEN, GREY, ORANGE, PURPLE, VERMILION

COLOURS = {"dises": BLUE, "evolve": GREEN, "openai_es": VERMILION, "ars": PURPLE, "ddpg": ORANGE}
WIDE = 3  # panels side by side

Look = Mapping[str, str]


def plot(trials: Sequence[Mapping[str, str]], looks: Iterable[Look], stem: Path) -> None:
    """Draw ``stem``.svg and .png. ``trials``: identities; ``looks``: rows of the curves' file, of other trials too."""
    curves: dict[tuple[str, ...], list[Look]] = {_key(trial): [] for trial in trials}
    names = list(trials[0])
    for look in looks:
        key = tuple(look[name] for name in names)
        if key in curves:
            curves[key].append(look)
    goals = list(dict.fromkeys((trial["task"], trial["goal"]) for trial in trials))
    columns, rows = min(WIDE, len(goals)), math.ceil(len(goals) / WIDE)
    figure = Figure(figsize=(1 + 3.6 * columns, 0.6 + 2.9 * rows), dpi=150, layout="constrained")
    FigureCanvasAgg(figure)
    panels = list(figure.subplots(rows, columns, squeeze=False).flat)
    for axes in panels:
        axes.set_axis_off()
    for axes, goal in zip(panels, goals, strict=False):
        axes.set_axis_on()
        _draw(axes, goal, [(trial, curves[_key(trial)]) for trial in trials if (trial["task"], trial["goal"]) == goal])
    used = [column for column in COLOURS if any(trial["column"] == column for trial in trials)]
    handles = [figure.axes[0].plot([], [], color=COLOURS[column], label=column)[0] for column in used]
    handles.append(figure.axes[0].plot([], [], color=GREY, linestyle="--", label="goal")[0])
    figure.legend(handles=handles, loc="outside lower center", ncols=len(handles), frameon=False, fontsize=8)
    with matplotlib.rc_context({"svg.fonttype": "none", "svg.hashsalt": stem.name}):
        figure.savefig(stem.with_suffix(".svg"), metadata={"Date": None, "Creator": None})
    figure.savefig(stem.with_suffix(".png"))


def _draw(axes: Axes, goal: tuple[str, str], found: Sequence[tuple[Mapping[str, str], Sequence[Look]]]) -> None:
    task, height = goal
    axes.set_title(f"{task} to {float(height):g}", fontsize=9)
    axes.set_xlabel("minutes", fontsize=8)
    axes.set_ylabel(RETURN.label, fontsize=8)
    axes.tick_params(labelsize=7)
    axes.grid(alpha=0.3)
    axes.axhline(float(height), color=GREY, linestyle="--", linewidth=0.9)
    axes.set_xlim(0, max(float(trial["budget_minutes"]) for trial, _ in found) * 1.02)
    for trial, looks in found:
        times, values = [float(look["minute"]) for look in looks], [float(look[RETURN.name]) for look in looks]
        axes.plot(times, values, ".-", color=COLOURS[trial["column"]], linewidth=1.1, markersize=3)


def _key(trial: Mapping[str, str]) -> tuple[str, ...]:
    return tuple(trial.values())
