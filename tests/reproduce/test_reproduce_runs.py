"""``neuro reproduce`` for real, on an entry of our own with tiny runs: outputs, cells that are kept, kills, bad input."""

import csv
import json
import signal
import subprocess
import sys
import time
from pathlib import Path
from types import SimpleNamespace

import pytest
from support.forked import forking_python
from support.inside import neuro_inside, one_line, well
from support.worlds import clean_environment, wait_for_rows

TINY = """
title: Tiny <trainings> & more
source: "Nobody et al., Table 0. Values made up."
note: a note
minutes: {quick: 0.1, full: 1}
runs:
  one:
    verb: train
    overrides: [population=4, batch_size=8, evaluate.every=1000]
    quick: [generations=2]
    full: [generations=GENERATIONS, checkpoint.every=25]
  wrong: {verb: bench, overrides: [what=nothing]}
  missing: {verb: train, overrides: ["task.root=$root/x", task=mnist], needs: {data: x}}
  scored: {verb: evaluate, of: one, overrides: ["output=$kept/scores.json"]}
  unscored: {verb: evaluate, of: wrong}
figures: {one: ["*.svg", "*.png"]}
row: {run: one, file: summary.json, value: generations, quantity: generations, published: null}
rows:
  - {name: generations, published: 2, size: quick, expect: [{near: published}]}
  - {name: parameters, value: parameters, quantity: "numbers <i>", expect: [{at_most: 10}]}
  - {name: after an error, run: wrong, size: quick, expect: [{at_most: generations}]}
  - {name: without data, run: missing, size: quick, expect: [{at_most: generations}]}
  - {name: beside it, size: quick, expect: [{at_most: after an error}]}
  - {name: of its checkpoint, size: quick, run: scored, file: scores.json, value: generation, expect: [{near: generations}]}
  - {name: of a run that failed, size: quick, run: unscored, expect: [{near: generations}]}
"""


def rows_of(path: Path) -> dict[str, dict[str, str]]:
    with path.open(newline="") as file:
        return {row["row"]: row for row in csv.DictReader(file)}


@pytest.fixture(scope="module", autouse=True)
def _commands_are_forks():
    """Let the entries' commands begin without the seconds in which each would import torch."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("neuro_cli.reproduce.run.sys", SimpleNamespace(executable=forking_python()))
        yield


@pytest.fixture(scope="module")
def finished(tmp_path_factory):
    """A folder in which the tiny entry was run once, and the command's end."""
    folder = tmp_path_factory.mktemp("reproduce")
    (folder / "tiny.yaml").write_text(TINY)
    (folder / "no data").mkdir()
    done = neuro_inside("reproduce", "table=tiny.yaml", "folder=out", "root=no data", cwd=folder, NEURO_CURVES="1")
    return folder, done


def test_every_row_has_its_verdict_and_a_failed_run_stops_no_other(finished):
    folder, done = finished
    assert done.returncode == 1
    assert "results in out; 2 rows failed" in done.stdout
    rows = rows_of(folder / "out" / "tiny" / "tiny.csv")
    assert {name: row["verdict"] for name, row in rows.items()} == {
        "generations": "reproduced",
        "parameters": "not as expected",
        "after an error": "failed",
        "without data": "not measurable here",
        "beside it": "not measurable here",
        "of its checkpoint": "as expected",
        "of a run that failed": "failed",
    }
    assert (rows["generations"]["published"], rows["generations"]["measured"]) == ("2.0", "2.0")
    assert rows["parameters"]["measured"] == "11274.0"
    assert rows["after an error"]["reason"].startswith("exit code 2: what=nothing: must be one of layer, ")
    assert rows["without data"]["reason"] == "there is no x in root=no data"
    assert rows["generations"]["command"] == "neuro train population=4 batch_size=8 evaluate.every=1000 generations=2"
    assert rows["of its checkpoint"]["command"].startswith("neuro evaluate one output=")
    assert rows["of a run that failed"]["reason"] == "wrong did not finish"
    for word in ("torch 2", "cores", ", load "):
        assert word in rows["generations"]["machine"]


def test_all_files_are_written(finished):
    folder, _ = finished
    out = folder / "out"
    markdown = (out / "tiny" / "tiny.md").read_text()
    assert "| generations | generations | 2 | 2 | 1.00 | ≈ published ± 0% | reproduced |" in markdown
    assert "Nobody et al." in markdown
    assert (out / "tiny" / "tiny.png").stat().st_size > 5_000
    pictures = sorted(path.name for path in (out / "tiny").glob("tiny_one_*"))
    assert pictures
    for name in pictures:
        assert f"]({name})" in markdown
        assert (out / "tiny" / name).read_bytes() == (out / "tiny" / "runs" / "one" / name.removeprefix("tiny_one_")).read_bytes()


def test_the_same_command_goes_on_and_runs_nothing_twice(finished):
    folder, _ = finished
    runs = folder / "out" / "tiny" / "runs"
    before = (runs / "one.json").read_bytes()
    done = neuro_inside("reproduce", "table=tiny.yaml", "folder=out", "root=no data", cwd=folder)
    assert done.returncode == 1
    assert (runs / "one.json").read_bytes() == before
    assert not (runs / "one_2").exists()
    assert "one: finished" in done.stdout
    assert json.loads((runs / "wrong.json").read_bytes())["finished"] is False


def test_a_folder_of_other_commands_is_refused_before_anything_runs(finished):
    folder, _ = finished
    done = neuro_inside("reproduce", "table=tiny.yaml", "size=full", "folder=out", cwd=folder)
    assert one_line(done) == "folder=out/tiny: one.json is of another command; choose a new folder"


def test_the_list_names_every_entry(tmp_path):
    done = well(neuro_inside("reproduce", cwd=tmp_path, COLUMNS="200"))
    for word in (
        "nes_table_1",
        "search_figure",
        "Forward pass, convolutions, a perturbation for every example",
        "quick, minutes",
    ):
        assert word in done.stdout
    assert "usage: neuro reproduce" in neuro_inside("reproduce", "--help", cwd=tmp_path).stdout
    assert not (tmp_path / "outputs").exists()


@pytest.mark.slow
def test_a_sweep_has_a_folder_for_each_of_its_jobs_and_continues(tmp_path):
    lines = [line for line in TINY.splitlines() if "unscored" not in line]
    (tmp_path / "tiny.yaml").write_text("\n".join(lines))
    command = (
        "reproduce",
        "-m",
        "table=tiny.yaml",
        "+with.seed=1,2",
        "folder=out",
        "tables.tiny.runs.wrong.overrides=['what=diversity','diversity.draws=2']",
    )
    for _ in range(2):
        done = neuro_inside(*command, cwd=tmp_path)
        for number in (0, 1):
            rows = rows_of(tmp_path / "out" / str(number) / "tiny" / "tiny.csv")
            assert f" seed={number + 1}" in rows["generations"]["command"]
            assert rows["generations"]["verdict"] == "reproduced"
    assert "one: finished" in done.stdout


def begun(folder: Path, rows: int) -> "subprocess.Popen[bytes]":
    """``neuro reproduce`` of the long tiny entry as a process of its own, once its training has ``rows`` rows."""
    command = [sys.executable, "-m", "neuro_cli", "reproduce", "table=tiny.yaml", "size=full", "folder=out"]
    process = subprocess.Popen(command, cwd=folder, env=clean_environment(), stdout=subprocess.DEVNULL)
    wait_for_rows(folder / "out" / "tiny" / "runs" / "one", rows, process)
    return process


def full(folder: Path, generations: int) -> None:
    text = TINY.replace("GENERATIONS", str(generations))
    lines = [line for line in text.splitlines() if "size: quick" not in line and "wrong" not in line]
    (folder / "tiny.yaml").write_text("\n".join(lines))


@pytest.mark.slow
@pytest.mark.parametrize("how", [signal.SIGKILL, signal.SIGTERM, signal.SIGINT])
def test_interrupted_it_goes_on_with_the_run_that_was_interrupted(tmp_path, how):
    full(tmp_path, 300)
    process = begun(tmp_path, 3)
    process.send_signal(how)
    assert process.wait(100) == (-signal.SIGKILL if how == signal.SIGKILL else 130)
    runs = tmp_path / "out" / "tiny" / "runs"
    assert not (runs / "one.json").exists()
    done = well(neuro_inside("reproduce", "table=tiny.yaml", "size=full", "folder=out", cwd=tmp_path))
    assert "neuro resume out/tiny/runs/one" in done.stdout
    assert not (runs / "one_2").exists()
    with (runs / "one" / "metrics.csv").open() as file:
        assert [int(row["generation"]) for row in csv.DictReader(file)] == list(range(1, 301))
    rows = rows_of(tmp_path / "out" / "tiny" / "tiny.csv")
    assert rows["parameters"]["verdict"] == "not as expected"


@pytest.mark.slow
def test_a_killed_run_is_a_failed_row_that_is_tried_again(tmp_path):
    full(tmp_path, 100)
    process = begun(tmp_path, 3)
    (child,) = Path(f"/proc/{process.pid}/task/{process.pid}/children").read_text().split()
    command = Path(f"/proc/{child}/cmdline").read_bytes()
    assert b"generations=100" in command
    subprocess.run(["kill", "-KILL", child], check=True)
    assert process.wait(100) == 1
    time.sleep(0.1)
    assert rows_of(tmp_path / "out" / "tiny" / "tiny.csv")["parameters"]["verdict"] == "failed"
    well(neuro_inside("reproduce", "table=tiny.yaml", "size=full", "folder=out", cwd=tmp_path))
    assert (tmp_path / "out" / "tiny" / "runs" / "one_2" / "summary.json").exists()
