"""Efficiencies and projections from made measurements, against the definitions."""

import csv
from dataclasses import replace

import pytest
from support.configs import composed

from neuro_cli.fabric.cost import Cost, CostModel
from neuro_cli.runner.options import Options
from neuro_cli.scaling import scaling
from neuro_cli.scaling.plan import Point, study_of
from neuro_cli.scaling.plot import plot_scaling
from neuro_cli.scaling.results import EXTRAPOLATED, MEASURED, PROJECTED, Projection, rows_of
from neuro_cli.scaling.scaling import error_line, measured_table, projected_table, show
from neuro_cli.scaling.worker import BYTES, extrapolated
from neuro_cli.scaling.worlds import Measurements

COST = {"all_gather": {"latency": 0.5, "bandwidth": 100.0}, "all_reduce": {"latency": 0.5, "bandwidth": 100.0}}


MODEL = "MNIST_3M"


def result(*seconds: float, sent: float = 0.0) -> dict:
    return {"seconds": list(seconds), "phases": {}, "bytes": dict.fromkeys(BYTES, 0.0) | {"bytes_sent": sent}}


@pytest.fixture
def study(monkeypatch):
    monkeypatch.setattr("os.sched_getaffinity", lambda pid: {0, 1})
    config = composed(
        "ranks=[1,2,4]", "projected_ranks=[2,8]", "populations=[3]", "strong=[8]", "methods=[replicated]", "project=true",
        "fabrics=[ethernet_1g]", verb="scale",
    )  # fmt: skip
    config["known_fabrics"]["ethernet_1g"]["cost"] = COST
    return study_of(Options(config))


@pytest.fixture
def found():
    made = Measurements()

    def add(name: str, ranks: int, population: int, *rounds: dict) -> None:
        made.points[name, Point("replicated", ranks, population, MODEL)] += rounds

    add("native", 1, 3, result(1.0, 1.2, 1.1), result(2.0, 2.0, 2.0))
    add("native", 1, 8, result(4.0), result(4.0))
    add("ethernet_1g", 2, 6, result(2.2, 2.2, 9.0, sent=7.0), result(2.5, 2.5, 2.5, sent=7.0))
    add("ethernet_1g", 2, 8, result(2.5), result(2.5))
    add("ethernet_1g", 4, 12, result(5.0), result(5.0))
    add("ethernet_1g", 4, 8, result(5.0), result(5.0))
    for ranks, population in ((2, 6), (2, 8), (4, 12), (4, 8), (8, 24), (8, 8)):
        calls = [["all_gather", 40, 0.5, 0.75]]  # a quarter of a second of other work
        one = {"seconds": [1.0], "calls": calls, "extrapolated": ranks == 8}
        made.pretended[Point("replicated", ranks, population, MODEL)] = [one, {**one, "seconds": [9.0]}, one]
    return made


def row(rows, scaling: str, ranks: int):
    return next(row for row in rows if row.scaling == scaling and row.ranks == ranks)


def test_efficiencies_are_of_the_pairs_of_a_round(study, found):
    rows = rows_of(study, found)
    weak = row(rows, "weak", 2)
    assert weak.efficiency.least == pytest.approx(1.1 / 2.2)
    assert weak.efficiency.most == pytest.approx(2.0 / 2.5)
    assert weak.efficiency.middle == pytest.approx((1.1 / 2.2 + 2.0 / 2.5) / 2)
    assert (weak.seconds.least, weak.seconds.most, weak.seconds.middle) == (2.2, 9.0, pytest.approx(2.35))
    assert row(rows, "strong", 2).efficiency.middle == pytest.approx(4.0 / (2 * 2.5))
    assert row(rows, "weak", 1).efficiency.middle == row(rows, "strong", 1).efficiency.middle == 1.0
    assert weak.bytes["bytes_sent"] == 7.0
    assert "interface_sent" not in weak.bytes


def test_ranks_that_share_cores_have_no_efficiency_unless_asked_for(study, found):
    crowded = row(rows_of(study, found), "weak", 4)
    assert crowded.crowded
    assert crowded.efficiency is None
    asked = row(rows_of(replace(study, oversubscribed=True), found), "weak", 4)
    assert asked.efficiency.middle == pytest.approx((1.1 / 5 + 2 / 5) / 2)


def test_a_projection_is_work_and_what_collectives_leave_exposed(study, found):
    rows = rows_of(study, found)
    eight = row(rows, "weak", 8)
    wire = 3 * 0.5 + 7 / 8 * 40 / 100  # a short all-gather: log2(8) messages
    assert eight.seconds.middle == pytest.approx(1.0 + wire - 0.25)
    assert eight.source == EXTRAPOLATED
    assert eight.efficiency.middle == pytest.approx((1.1 + 2.0) / 2 / eight.seconds.middle)
    assert row(rows, "strong", 8).efficiency.middle == pytest.approx(4.0 / (8 * eight.seconds.middle))
    two = row(rows, "weak", 2)
    assert two.source == MEASURED
    assert two.error == pytest.approx((1.0 + 0.5 + 0.5 * 0.4 - 0.25) / 2.35 - 1)


def test_a_hidden_collective_costs_nothing():
    calls = [["all_reduce", 10, 0.0, 1.4]]
    pretended = {Point("x", 2, 2): [{"seconds": [1.5], "calls": calls, "extrapolated": False}]}
    projection = Projection(CostModel(Cost(1, 1), Cost(0.1, 100)), pretended)
    assert projection.seconds(Point("x", 2, 2)) == 1.5
    assert projection.source(Point("x", 2, 2)) == PROJECTED


def test_extrapolation_is_the_line_through_two_worlds():
    first = {"seconds": [1.0], "calls": [["all_gather", 100, 0.0, 0.0]]}
    second = {"seconds": [1.5], "calls": [["all_gather", 200, 1.0, 2.0]]}
    assert extrapolated([(2, first), (4, second)], 8) == {
        "seconds": [2.5],
        "calls": [["all_gather", 400, 3.0, 6.0]],
        "extrapolated": True,
    }


def test_everything_is_written_and_projections_are_called_so(study, found, tmp_path, capsys):
    rows = rows_of(study, found)
    show(study, found, rows, tmp_path)
    with (tmp_path / "scaling.csv").open() as file:
        lines = list(csv.DictReader(file))
    assert len(lines) == len(rows) == 8
    assert {line["source"] for line in lines} == {MEASURED, EXTRAPOLATED}
    assert all((line["source"] == MEASURED) == (line["ranks"] != "8") for line in lines)
    markdown = (tmp_path / "scaling.md").read_text()
    assert "Projected efficiencies" in markdown
    assert "more ranks than cores" in markdown
    assert error_line(rows) in markdown
    assert error_line(rows).startswith("projection against 2 measured points: median error ")
    assert "given in its config" in capsys.readouterr().out
    columns, cells = projected_table(rows)
    assert columns[-1] == "N = 8"
    assert all(cell[-1].startswith("~") for cell in cells)
    assert len(measured_table(rows)[1]) == 6


def test_several_models_have_rows_and_a_column_of_their_own(study, found):
    study = replace(study, models={"CIF_8M": {}, MODEL: {}})
    for timed in (found.points, found.pretended):
        for key, value in list(timed.items()):
            other = replace(key, model="CIF_8M") if isinstance(key, Point) else (key[0], replace(key[1], model="CIF_8M"))
            timed[other] = value
    rows = rows_of(study, found)
    half = len(rows) // 2
    assert [row.model for row in rows if row.scaling == "weak"] == ["CIF_8M"] * (half // 2) + [MODEL] * (half // 2)
    columns, cells = measured_table(rows)
    assert (columns[0], cells[0][0], cells[-1][0]) == ("model", "CIF_8M", MODEL)
    columns, cells = projected_table(rows)
    assert (columns[0], len(cells)) == ("model", 4)


def test_all_of_a_study_but_the_measurement(study, found, tmp_path, monkeypatch):
    """A logger gets the study, with ranks as steps."""
    accumulator = pytest.importorskip("tensorboard.backend.event_processing.event_accumulator")
    monkeypatch.setattr(scaling, "measure", lambda study, folder: found)
    monkeypatch.setattr(scaling, "study_of", lambda config: study)
    scaling.scale(composed("logger=tensorboard", verb="scale"), tmp_path)
    events = accumulator.EventAccumulator(str(tmp_path / "tensorboard"))
    events.Reload()
    name = "MNIST_3M/ethernet_1g/replicated/3"
    assert [(e.step, e.value) for e in events.Scalars(f"weak_efficiency/{name}")] == [(1, 1.0), (2, pytest.approx(0.65))]
    assert events.Scalars(f"weak_seconds/{name}/projected")
    assert {path.name for path in tmp_path.glob("*.svg")} == {"weak.svg", "strong.svg"}


def test_plots_are_drawn(study, found, tmp_path):
    assert plot_scaling(rows_of(study, found), "weak", tmp_path / "plot")
    words = (tmp_path / "plot.svg").read_text()
    assert all(word in words for word in ("MNIST_3M, ethernet_1g", "measured: filled", "projected: hollow"))
    assert (tmp_path / "plot.png").read_bytes()[:8] == b"\x89PNG\r\n\x1a\n"


def test_nothing_to_draw_is_not_drawn(tmp_path):
    assert not plot_scaling([], "weak", tmp_path / "plot")
    assert not (tmp_path / "plot.png").exists()
