"""A task with metrics of its own is a class and a YAML, in a folder of the user's: the one of docs/how_to/extending.md."""

import json
import re
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from support.inside import Done, neuro_inside, one_line, well
from support.tables import rows_of

from neuro_cli.run_folder.declaration import declared

PAGE = (Path(__file__).parents[2] / "docs" / "how_to" / "extending.md").read_text()
SOURCE, OPTION = (
    re.search(rf"^`{name}`:\n\n```\w+\n(.*?)^```$", PAGE, re.MULTILINE | re.DOTALL)[1]  # type: ignore[index]
    for name in ("neuro_cli/task/sines.py", "conf/task/sines.yaml")
)
SETTING = (
    "task=mine/sines.yaml", "model=mlp_policy", "population=16", "batch_size=32",
    "threads=1", "evaluate.every=5", "checkpoint.every=100",
)  # fmt: skip


@pytest.fixture(autouse=True)
def imported_anew() -> Iterator[None]:
    """A test's class is not the next one's: both have the same name."""
    sys.modules.pop("own_sines", None)
    yield
    sys.modules.pop("own_sines", None)


def write_task(folder: Path, source: str = SOURCE) -> None:
    (folder / "mine").mkdir()
    (folder / "own_sines.py").write_text(source)
    (folder / "mine" / "sines.yaml").write_text(OPTION.replace("neuro_cli.task.sines.", "own_sines."))


@pytest.fixture(scope="module")
def swept(tmp_path_factory) -> tuple[Path, Done]:
    """A sweep of two runs of twenty generations."""
    folder = tmp_path_factory.mktemp("sines")
    write_task(folder)
    done = well(neuro_inside("train", "-m", *SETTING, "generations=20", "seed=1,2", "hydra.sweep.dir=sweep", cwd=folder))
    (folder / "own_sines.py").unlink()  # what follows must do without the class
    return folder, done


def summary_of(folder: Path, job: str) -> dict[str, float]:
    return dict(json.loads((folder / "sweep" / job / "summary.json").read_text()))


def test_the_metrics_are_columns_of_the_run(swept):
    folder, _ = swept
    rows, summary = rows_of(folder / "sweep" / "0" / "metrics.csv"), summary_of(folder, "0")
    looked = [int(row["generation"]) for row in rows if row["test_error"]]
    assert looked == [int(row["generation"]) for row in rows if row["test_near"]] == [5, 10, 15, 20]
    assert float(rows[-1]["test_error"]) == summary["test_error"] > 0
    assert not {*summary, *rows[0]} & {"test_accuracy", "test_loss"}


def test_the_headline_is_on_the_progress_line_and_in_the_log(swept):
    folder, done = swept
    last = f"{summary_of(folder, '1')['test_error']:.4g}"
    assert f"test error {last}" in done.stdout
    assert "accuracy" not in done.stdout
    assert f"generation 20: test error {last}" in (folder / "sweep" / "1" / "log.txt").read_text()


def test_the_sweep_ends_with_a_table_of_the_headline(swept):
    folder, done = swept
    head = next(line for line in done.stdout.splitlines() if line.startswith("run "))
    assert re.search(r"run\s+state\s+test error\s+", head)
    assert [float(row["test_error"]) for row in rows_of(folder / "sweep" / "sweep.csv")] == [
        summary_of(folder, job)["test_error"] for job in ("0", "1")
    ]


def test_the_report_needs_no_class_and_has_curves_and_figures(swept):
    folder, _ = swept
    done = well(neuro_inside("report", "sweep", cwd=folder))
    assert f"{summary_of(folder, '0')['test_error']:.4g}" in done.stdout
    page = (folder / "sweep" / "report.html").read_text()
    for words in ("test error over generations", "test points within 0.1 over generations", "Lower is better."):
        assert words in page
    assert "test accuracy" not in page


def test_the_report_of_a_run_at_work_has_the_headline(swept, tmp_path):
    """As it is before the first summary: from metrics.csv and the declaration alone."""
    folder, _ = swept
    run = folder / "sweep" / "1"
    for name in (".hydra/config.yaml", ".hydra/overrides.yaml", ".hydra/metrics.yaml", "metrics.csv", "log.txt"):
        (tmp_path / "run" / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / "run" / name).write_bytes((run / name).read_bytes())
    done = neuro_inside("report", "run", "html=false", cwd=tmp_path)
    assert "test error" in done.stdout
    assert f"{summary_of(folder, '1')['test_error']:.4g}" in done.stdout


def test_a_run_stops_where_the_error_is_low_enough_and_is_evaluated(tmp_path):
    write_task(tmp_path)
    stop = ("stop.metric=test_error", "stop.at=1e9", "generations=20", "hydra.run.dir=run")
    done = well(neuro_inside("train", *SETTING, *stop, cwd=tmp_path))
    assert "stopped after generation 5 (test_error has reached 1e+09)" in done.stderr
    evaluated = well(neuro_inside("evaluate", "run", "trust=own_sines", cwd=tmp_path))
    error = json.loads((tmp_path / "run" / "summary.json").read_text())["test_error"]
    assert re.search(rf"test_error\W+{re.escape(f'{error:.4g}')}\W", evaluated.stdout)
    never = neuro_inside(
        "train", *SETTING, "stop.metric=test_error", "stop.at=0", "generations=6", "hydra.run.dir=x", cwd=tmp_path
    )
    assert json.loads((tmp_path / "x" / "summary.json").read_text())["generations"] == 6, never.stderr


WRONG = {
    "stop.metric=test_eror: did you mean test_error or test_near?": (None, "stop.metric=test_eror"),
    "task.metrics: seconds: every run has a column or a figure of that name": ('Metric("test_near"', 'Metric("seconds"'),
    "task.metrics: test_error: it is declared twice": ('Metric("test_near"', 'Metric("test_error"'),
    "task=Sines: it declares the metric test_near, summarise gives test_error": (', "test_near": near / count', ""),
    "Can't instantiate abstract class Sines": ("    metrics = (", "    others = ("),
    "task.metrics: it declares none; at least one is needed": ("    def __init__", "    metrics = ()\n\n    def __init__"),
    "metric test_error: form='%d': must be a format like": ('"test error", better', '"test error", "%d", better'),
}


@pytest.mark.parametrize("line", WRONG)
def test_a_wrong_declaration_is_one_line(line, tmp_path):
    old, new = WRONG[line]
    source = SOURCE if old is None else SOURCE.replace(old, new)
    assert (source != SOURCE) == (old is not None)
    write_task(tmp_path, source)
    stop = (new, "stop.at=1") if old is None else ()
    done = neuro_inside("train", *SETTING, *stop, "generations=5", "hydra.run.dir=run", cwd=tmp_path)
    assert line in one_line(done)


def test_a_damaged_declaration_is_named(tmp_path):
    (tmp_path / "run" / ".hydra").mkdir(parents=True)
    (tmp_path / "run" / ".hydra" / "config.yaml").write_text("generations: 10\n")
    file = tmp_path / "run" / ".hydra" / "metrics.yaml"
    for text in ("[]", "1", "[{name: x}]", "[{name: x, label: x, form: .999999999f}]", "[{name: 'a b', label: x}]", "&a [*a]"):
        file.write_text(text)
        done = neuro_inside("report", "run", "html=false", cwd=tmp_path)
        assert ".hydra/metrics.yaml: " in one_line(done), text
    file.unlink()
    assert declared(tmp_path / "run") == ()
