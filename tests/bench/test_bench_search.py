"""``neuro bench search``: which searches it runs, its rows and its table, with made-up searches; slow: with real ones."""

import json
from pathlib import Path
from typing import Any

import pytest
from support.inside import neuro_inside, one_line, well
from support.tables import rows_of

from neuro_cli.bench import search as bench_of_searches
from neuro_cli.core.errors import UserError

TINY = 'search.overrides=["pool.workers=1","trainings=4","training.epochs=1","model.filters=2","strategy.population=3"]'


def summary(accuracy: float | None) -> str:
    first = {"validation_accuracy_median": 0.2, "test_accuracy_median": 0.1}
    found: dict[str, Any] = {"test_accuracy": accuracy, "validation_accuracy": 0.9, "first_generation": first}
    return json.dumps(found | {"trainings": 4, "complete": True})


@pytest.fixture
def sweeps(monkeypatch) -> list[tuple[str, list[int], list[str]]]:
    """Sweeps that were run; with evolution the best is better by the seed's hundredth, with seed 2 it is worse."""
    run: list[tuple[str, list[int], list[str]]] = []

    def sweep(folder: Path, strategy: str, seeds: list[int], overrides: list[str]) -> None:
        run.append((strategy, list(seeds), overrides))
        for job, seed in enumerate(seeds):
            (folder / str(job)).mkdir(parents=True)
            gain = 0.0 if strategy == "random" else -0.5 if seed == 2 else seed / 100
            (folder / str(job) / "summary.json").write_text(summary(0.6 + gain))

    monkeypatch.setattr(bench_of_searches, "_sweep", sweep)
    return run


def test_every_search_is_a_row_and_a_gain_is_against_random_search_of_its_seed(sweeps, tmp_path):
    chosen = ("search.only=[digits]", "search.seeds=[1,2,3]", "search.results=kept.csv")
    done = well(neuro_inside("bench", "search", *chosen, "hydra.run.dir=one", cwd=tmp_path))
    assert sweeps == [(name, [1, 2, 3], ["task=digits"]) for name in ("random", "generational")]
    found = rows_of(tmp_path / "kept.csv")
    assert [(row["strategy"], row["seed"]) for row in found] == [(name, seed) for name, *_ in sweeps for seed in "123"]
    assert [row["gain"] for row in found[:3]] == [""] * 3
    assert [float(row["gain"]) for row in found[3:]] == pytest.approx([0.01, -0.5, 0.03])
    assert "-0.1533" in done.stdout
    assert "2 of 3" in done.stdout
    # the same again runs nothing, another seed is one more of each
    assert neuro_inside("bench", "search", *chosen, "hydra.run.dir=two", cwd=tmp_path).returncode == 0
    assert len(sweeps) == 2
    more = ("search.only=[digits]", "search.seeds=[1,2,3,5]", "search.results=kept.csv")
    assert neuro_inside("bench", "search", *more, "hydra.run.dir=three", cwd=tmp_path).returncode == 0
    assert [seeds for _, seeds, _ in sweeps[2:]] == [[5], [5]]
    assert float(rows_of(tmp_path / "kept.csv")[-1]["gain"]) == pytest.approx(0.05)


def test_a_search_that_trained_nothing_is_told(sweeps):
    with pytest.raises(UserError, match=r"^what=search: digits, seed 7: the search trained no candidate, or was stopped$"):
        bench_of_searches._row(("digits", "random", "7", ""), json.loads(summary(None)), {})


@pytest.mark.slow
def test_real_searches(tmp_path):
    well(neuro_inside("bench", "search", "search.only=[digits]", "search.seeds=[1]", TINY, "hydra.run.dir=run", cwd=tmp_path))
    found = rows_of(tmp_path / "run" / "search.csv")
    assert [(row["strategy"], row["trainings"]) for row in found] == [("random", "4"), ("generational", "4")]
    folders = [tmp_path / "run" / f"digits_{row['strategy']}" / "0" / "summary.json" for row in found]
    assert [json.loads(path.read_text())["test_accuracy"] for path in folders] == [float(row["test_accuracy"]) for row in found]
    wrong = neuro_inside("bench", "search", "search.only=[cifar10_subset]", "search.root=nowhere", TINY, cwd=tmp_path)
    assert "task.root=nowhere: no train folder there" in one_line(wrong)
