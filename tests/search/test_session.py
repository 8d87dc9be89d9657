"""Whole searches whose candidates have a made-up fitness: what the folder holds, failures, stops, resumes."""

import io
import json
from pathlib import Path

import pytest
from rich.console import Console
from support.inside import Done, neuro_inside, one_line, well
from support.tables import rows_of

from neuro_cli.report.run_state import read_job
from neuro_cli.search.engine import Engine
from neuro_cli.search.session import SearchDisplay
from neuro_cli.strategy.generational import Generational
from neuro_cli.strategy.outcome import TrainingOutcome
from neuro_cli.strategy.space import Space

MADE = ("pool=embedded", "pool._target_=made_pool.MadePool")


def search(folder: Path, run: str, *overrides: str) -> Done:
    return neuro_inside("search", *MADE, f"hydra.run.dir={run}", *overrides, cwd=folder)


def test_candidates_that_fail_are_rows_and_never_parents(tmp_path):
    done = well(search(tmp_path, "run", "trainings=24", "+pool.fails=[3x3]", "+pool.lost=[1x1]"))
    errors = {row["module"]: row["error"] for row in rows_of(tmp_path / "run" / "candidates.csv")}
    assert len(errors) == 24
    for module, error in errors.items():
        lost = "its worker process ended with signal SIGKILL" if "1x1" in module.split() else ""
        assert error == (lost or ("it does not fit in memory: too wide" if "3x3" in module.split() else ""))
    summary = json.loads((tmp_path / "run" / "summary.json").read_bytes())
    assert summary["failures"] == sum(bool(error) for error in errors.values()) > 0
    assert set(summary["module"]) <= {"5x5", "5x1-1x5", "3x1-1x3"}
    assert summary["test_accuracy"] == summary["validation_accuracy"] / 2
    assert "failed: its worker process ended with signal SIGKILL" in done.stderr
    assert "Traceback" not in done.stderr


def test_a_search_whose_candidates_all_fail_ends_with_their_error(tmp_path):
    done = search(tmp_path, "run", "+pool.lost=[1x1,3x3,5x5,3x1-1x3,5x1-1x5]")
    last = done.stderr.splitlines()[-1]
    assert last == "neuro: error: all 8 candidates failed, the last by: its worker process ended with signal SIGKILL"
    assert done.returncode == 2
    assert read_job(tmp_path / "run", "run").state == "failed"


def test_the_order_of_results_changes_no_file_but_in_clocks(tmp_path):
    for order in (1, 2):
        assert search(tmp_path, f"run-{order}", "trainings=20", f"+pool.order={order}").returncode == 0
    first, second = (rows_of(tmp_path / f"run-{order}" / "candidates.csv") for order in (1, 2))
    assert first == second
    best = [{path.name: path.read_text() for path in (tmp_path / f"run-{order}" / "best").iterdir()} for order in (1, 2)]
    assert best[0] == best[1]


@pytest.mark.parametrize(
    "strategy", ["steady_state", *(pytest.param(name, marks=pytest.mark.slow) for name in ("generational", "random"))]
)
def test_a_search_in_many_sessions_is_the_search_in_one(tmp_path, strategy):
    """Each of the sessions has time for a candidate at most; with one order of results all strategies are reproducible."""
    assert search(tmp_path, "whole", f"strategy={strategy}", "trainings=12", "strategy.population=4").returncode == 0
    run = tmp_path / "parts"
    done = search(tmp_path, "parts", f"strategy={strategy}", "trainings=12", "strategy.population=4", "time_limit=1e-9")
    for _ in range(3):
        assert "continue with: neuro resume" in done.stderr
        well(neuro_inside("resume", str(run), "trust=made_pool", "time_limit=1e-9", cwd=tmp_path))
        assert read_job(run, "parts").state == "stopped"
    assert neuro_inside("resume", str(run), "trust=made_pool", "time_limit=null", cwd=tmp_path).returncode == 0
    assert read_job(run, "parts").state == "finished"
    assert len(rows_of(run / "candidates.csv")) == 12
    generations = [int(row["generation"]) for row in rows_of(run / "metrics.csv")]
    assert generations == list(range(1, len(generations) + 1))
    if strategy != "steady_state":
        assert rows_of(run / "candidates.csv") == rows_of(tmp_path / "whole" / "candidates.csv")


@pytest.mark.parametrize("strategy", ["steady_state", "generational"])
def test_a_search_that_is_killed_behind_its_last_checkpoint_keeps_its_rows(tmp_path, strategy):
    well(search(tmp_path, "run", f"strategy={strategy}", "trainings=12", "strategy.population=4"))
    rows = (tmp_path / "run" / "metrics.csv").read_bytes()
    assert rows.count(b"\n") > 2
    (tmp_path / "run" / "summary.json").unlink()
    well(neuro_inside("resume", "run", "trust=made_pool", cwd=tmp_path))
    assert (tmp_path / "run" / "metrics.csv").read_bytes() == rows


def test_every_module_of_a_small_space_is_trained_once_and_the_search_says_so(tmp_path):
    done = well(search(tmp_path, "run", "layers=[5x5,3x3]", "max_layers=2", "strategy.population=4", "trainings=100"))
    assert "the search ends early: every module of up to 2 layers is trained" in done.stderr
    assert len(rows_of(tmp_path / "run" / "candidates.csv")) == 6
    assert read_job(tmp_path / "run", "run").state == "finished"


def test_a_saved_search_that_names_foreign_code_needs_trust(tmp_path):
    assert search(tmp_path, "run", "trainings=8").returncode == 0
    line = one_line(neuro_inside("resume", "run", "trainings=10", cwd=tmp_path))
    assert line == "pool._target_=made_pool.MadePool: it runs code of made_pool; pass trust=made_pool if this run folder is yours"
    well(neuro_inside("resume", "run", "trainings=10", "trust=made_pool", cwd=tmp_path))
    assert len(rows_of(tmp_path / "run" / "candidates.csv")) == 10


def test_the_view_is_a_line_with_the_state():
    engine, screen = Engine(Generational(4, 0.5, 2, 2), Space(("1x1", "5x5"), 3), 1, 20), io.StringIO()
    view = SearchDisplay(engine, Console(file=screen, width=120))
    for module in engine.ask():
        engine.tell(TrainingOutcome(module, fitness=0.25, loss=1.0, parameters=1234))
    engine.ask()
    for _ in range(2):
        view.update({"workers": 3, "waiting": 2})
    (line,) = screen.getvalue().splitlines()
    assert line.startswith("generation 1  4/20 candidates  validation accuracy 0.2500 by")
    assert "3 workers" in line
