"""The plot shows what metrics.csv holds."""

import logging
import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from matplotlib.figure import Figure
from matplotlib.image import imread
from support.inside import well

from neuro_cli.core.errors import UserError
from neuro_cli.core.metric import ACCURACY
from neuro_cli.logger.csv import CsvLogger
from neuro_cli.run_folder.candidates import panel_of_searches, trained
from neuro_cli.run_folder.plot import Line, Panel, draw, figure_of, plot_run, title_of


def metrics(folder: Path, generations: int, every: int, **override: float | None) -> Path:
    logger = CsvLogger()
    logger.start(folder, {}, None)
    for generation in range(1, generations + 1):
        fitness = -2.3 / (1 + 0.05 * generation)
        row = {
            "generation": generation,
            "fitness_mean": fitness,
            "fitness_best": 0.8 * fitness,
            "test_accuracy": 1 - 0.9 / (1 + 0.05 * generation) if every and generation % every == 0 else None,
        }
        logger.log(row | override)
    logger.finish({})
    return folder / "metrics.csv"


@pytest.fixture
def drawn(monkeypatch: pytest.MonkeyPatch) -> list[Figure]:
    """The figures that were saved."""
    figures: list[Figure] = []
    save = Figure.savefig

    def keep(self: Figure, *arguments: object, **options: object) -> None:
        figures.append(self)
        save(self, *arguments, **options)

    monkeypatch.setattr(Figure, "savefig", keep)
    return figures


def test_curves(tmp_path: Path, drawn: list[Figure]) -> None:
    plot_run(metrics(tmp_path, 200, 10), tmp_path / "plot.png", ACCURACY)
    left, right = drawn[0].axes
    assert (left.get_xlabel(), left.get_ylabel(), right.get_ylabel()) == ("generation", "fitness", "test accuracy")
    labels = [text.get_text() for text in drawn[0].legends[0].get_texts()]
    assert labels == ["best fitness", "mean fitness", "test accuracy (last 0.9182)"]
    assert list(right.lines[0].get_xdata()) == list(range(10, 201, 10))
    assert right.get_ylim() == (0, 1)
    image = imread(tmp_path / "plot.png")
    assert image.shape[:2] == (720, 1200)
    assert np.unique(image.reshape(-1, image.shape[-1]), axis=0).shape[0] > 10


def test_the_title_says_which_run_it_is(tmp_path: Path, drawn: list[Figure]) -> None:
    classes = {"model": "my_nets.Net_$x$", "task": "neuro_cli.task.digits.Digits", "algo": "neuro_cli.algo.snes.SNES"}
    config = {"seed": 3, **{group: {"_target_": name} for group, name in classes.items()}}
    plot_run(metrics(tmp_path, 5, 0), tmp_path / "plot.png", ACCURACY, title_of(config))
    assert drawn[0].get_suptitle() == "Net_$x$ on Digits, SNES, seed 3"
    config["task"] |= {"id": "CartPole-v1"}
    assert title_of(config) == "Net_$x$ on CartPole-v1, SNES, seed 3"


@pytest.mark.parametrize("value", [None, float("nan"), float("-inf")])
def test_values_that_cannot_be_drawn_are_left_out(tmp_path: Path, drawn: list[Figure], value: float | None) -> None:
    plot_run(metrics(tmp_path, 5, 0, fitness_best=value), tmp_path / "plot.png", ACCURACY)
    assert [line.get_label() for line in drawn[0].axes[0].lines] == ["mean fitness"]


def test_nothing_to_plot(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture) -> None:
    monkeypatch.setattr(logging.getLogger("neuro_cli"), "propagate", True)  # a run in this process cuts it off
    (tmp_path / "metrics.csv").write_text("")
    with caplog.at_level(logging.WARNING):
        plot_run(tmp_path / "metrics.csv", tmp_path / "plot.png", ACCURACY)
    assert "has no rows: nothing to plot" in caplog.text
    assert not (tmp_path / "plot.png").exists()


def test_a_matplotlibrc_in_the_current_folder_has_no_say(tmp_path):
    """It would be read by whoever resumes a run in there, and LaTeX be run."""
    (tmp_path / "matplotlibrc").write_text("text.usetex: True\ntext.latex.preamble: \\\\input{/etc/passwd}\n")
    (tmp_path / "metrics.csv").write_text("generation,fitness_best,fitness_mean\n1,0.5,0.25\n2,0.75,0.5\n")
    (tmp_path / "latex").write_text("#!/bin/sh\ntouch latex-ran\nexit 1\n")
    (tmp_path / "latex").chmod(0o755)
    program = (
        "from pathlib import Path; from neuro_cli.core.metric import ACCURACY; from neuro_cli.run_folder.plot import plot_run; "
        "plot_run(Path('metrics.csv'), Path('p.png'), ACCURACY)"
    )
    environment = os.environ | {"PATH": f"{tmp_path}:{os.environ['PATH']}"}
    well(
        subprocess.run(
            [sys.executable, "-c", program], cwd=tmp_path, env=environment, capture_output=True, text=True, timeout=120
        )
    )
    assert (tmp_path / "p.png").exists()
    assert not (tmp_path / "latex-ran").exists()


def test_panels_share_a_legend_and_draw_ranges(tmp_path: Path, drawn: list[Figure]) -> None:
    band = Line([1, 2, 3], [1.0, 2.0, 3.0], "one", low=[0.5, 1.5, 2.5], high=[1.5, 2.5, 3.5])
    marks = Line([1, 2], [2.0, 4.0], "two", style="", marker="o", low=[1.0, 3.0], high=[3.0, 5.0], whiskers="y")
    draw([Panel([band, marks], {"title": "left"}), Panel([band], {"title": "right"})], tmp_path / "plot", columns=2)
    assert [text.get_text() for text in drawn[0].legends[0].get_texts()] == ["one", "two"]
    left, right = drawn[0].axes
    assert (left.get_title(), right.get_title()) == ("left", "right")
    assert [len(axes.collections) for axes in (left, right)] == [2, 1]  # the band and the whiskers, the band alone
    assert left.dataLim.y0 == 0.5
    assert {path.suffix for path in tmp_path.iterdir()} == {".svg", ".png"}


def test_a_link_in_the_place_of_a_plot_is_refused(tmp_path: Path) -> None:
    (tmp_path / "other.png").write_bytes(b"kept")
    (tmp_path / "plot.png").symlink_to(tmp_path / "other.png")
    with pytest.raises(UserError, match=r"plot\.png"):
        draw([Panel([Line([1, 2], [1.0, 2.0])], {})], tmp_path / "plot.png")
    assert (tmp_path / "other.png").read_bytes() == b"kept"


def test_a_search_alone_shows_layers_and_several_show_whose_candidates_they_are(tmp_path):
    lines = ["candidate,layers,validation_accuracy", "1,1,0.8", "2,2,", "3,2,0.7", "4,3,0.9", "x,1,0.99"]
    (tmp_path / "candidates.csv").write_text("\n".join(lines))
    rows = trained(tmp_path)
    marks, best = panel_of_searches([("a", "red", rows)]).lines
    assert (marks.x, marks.y, marks.shades) == ([1, 3, 4], [0.8, 0.7, 0.9], [1, 2, 3])
    assert (best.y, best.steps, best.label) == ([0.8, 0.8, 0.9], True, "best so far")
    several = panel_of_searches([("a", "red", rows), ("b", "blue", rows)]).lines
    assert [(line.colour, line.label, len(line.shades)) for line in several] == [
        ("red", "", 0), ("red", "a", 0), ("blue", "", 0), ("blue", "b", 0),
    ]  # fmt: skip


@pytest.mark.parametrize(("values", "labels"), [([0.2, 4.5], ["0.2", "0.5", "1", "2", "5"]), ([0.02, 4.5], ["0.1", "1"])])
def test_an_axis_of_logarithms_has_plain_numbers(values, labels):
    (axes,) = figure_of([Panel([Line([1, 2], values)], {"yscale": "log"})], width=5.0).axes
    low, high = axes.get_ylim()
    ticks = zip(axes.get_yticks(), axes.get_yticklabels(), strict=True)
    assert [label.get_text() for tick, label in ticks if low <= tick <= high] == labels
    assert not any(label.get_text() for label in axes.get_yticklabels(minor=True))
