"""The table over runs says of each how it stands, from what lies in its folder."""

import json
import os
from pathlib import Path

import pytest
from support.inside import neuro_inside, one_line
from support.tables import rows_of

from neuro_cli.report.run_state import read_job
from neuro_cli.report.table import CSV, read_jobs, report

SMALL = ("population=8", "batch_size=16", "threads=1", "generations=2")
BEGUN = "650 parameters, population 8, 1 ranks"
STOPPED = "stopped after generation 4 (SIGTERM)"


def made(run: Path, *messages: str, generations: int | None = None, overrides: str = "[]") -> Path:
    """A run folder of 10 generations with these log messages, and a summary if it has ``generations``."""
    (run / ".hydra").mkdir(parents=True)
    (run / ".hydra" / "config.yaml").write_text("generations: 10\nranks: 2\n")
    (run / ".hydra" / "overrides.yaml").write_text(overrides)
    if messages:
        lines = [f"2026-01-02 03:04:05,678 INFO neuro_cli.run_folder.record: {message}\n" for message in messages]
        (run / "log.txt").write_text("".join(lines))
    rows = ["generation,test_accuracy,seconds,candidates_per_second", "1,,0.5,16.0", "2,0.25,1.5,8.0", "3,0.5"]
    (run / "metrics.csv").write_text("\n".join(rows))
    if generations is not None:
        summary = {"generations": generations, "test_accuracy": 0.75, "wall_seconds": 3.0, "ranks": 4}
        (run / "summary.json").write_text(json.dumps(summary | {"candidates_per_second": 20.0}))
    return run


@pytest.mark.parametrize(
    ("messages", "generations", "state", "reason"),
    [
        ([BEGUN], 10, "finished", ""),
        ([BEGUN, f"{STOPPED}; go on with: neuro resume x"], 4, "stopped", STOPPED),
        ([BEGUN, STOPPED, "queued again after generation 4"], 4, "stopped", "queued again after generation 4"),
        ([BEGUN, "failed: task.root=x: gone"], None, "failed", "task.root=x: gone"),
        # killed in a second session: the summary is of the first
        ([BEGUN, STOPPED, BEGUN, "row"], 4, "failed", "ended without a word; last log line: row"),
        ([BEGUN, "failed: ValueError: x"], 10, "failed", "ValueError: x"),
        ([], None, "failed", "no log line"),
    ],
)
def test_the_state_of_a_run_that_has_ended(tmp_path, messages, generations, state, reason):
    job = read_job(made(tmp_path / "run", *messages, generations=generations), "run")
    assert (job.state, job.reason) == (state, reason)
    if state == "failed":  # from the whole lines of metrics.csv
        numbers = (job.generations, job.values["test_accuracy"], job.wall_seconds, job.candidates_per_second, job.ranks)
        assert numbers == (2, 0.25, 2.0, 8.0, 2)
    else:
        assert (job.generations, job.values["test_accuracy"], job.ranks) == (generations, 0.75, 4)


def test_a_sweep_is_told_by_what_differs(tmp_path, capsys):
    for job, seed in ((10, 3), (2, 1), (0, 2)):
        made(tmp_path / "sweep" / str(job), BEGUN, generations=10, overrides=f"[population=8, +algo=snes, seed={seed}]")
    made(tmp_path / "alone", BEGUN, "failed: [red] is no colour", overrides="[seed=9]")
    report([tmp_path / "sweep"])
    rows = rows_of(tmp_path / "sweep" / CSV)
    assert list(rows[0])[:3] == ["run", "seed", "state"]
    assert [(row["run"], row["seed"], row["test_accuracy"]) for row in rows] == [
        ("0", "2", "0.75"),
        ("2", "1", "0.75"),
        ("10", "3", "0.75"),
    ]
    capsys.readouterr()
    report([tmp_path / "sweep", tmp_path / "alone"])
    assert "[red] is no colour" in capsys.readouterr().out
    assert not (tmp_path / "alone" / CSV).exists()


def test_a_job_that_never_began_has_its_line(tmp_path):
    made(tmp_path / "0", BEGUN, generations=10)
    made(tmp_path / "1", BEGUN)
    made(tmp_path / "3", BEGUN, STOPPED, generations=4)
    made(tmp_path / "4", BEGUN, STOPPED, generations=4)
    jobs = read_jobs(tmp_path, {1: "FAILED", 2: "NODE_FAIL", 3: "TIMEOUT", 4: "CANCELLED by 0"})
    assert [(job.state, job.reason) for job in jobs] == [
        ("finished", ""),
        ("failed", f"SLURM: FAILED; ended without a word; last log line: {BEGUN}"),
        ("failed", "SLURM: NODE_FAIL"),
        ("failed", f"SLURM: TIMEOUT; {STOPPED}"),
        ("stopped", STOPPED),
    ]


NET = """
import os
from torch import nn

class Net(nn.Linear):
    calls = 0

    def __init__(self):
        super().__init__(64, 10)

    def forward(self, images):
        Net.calls += 1
        if Net.calls == 40:
            os.kill(os.getpid(), {number})
        return super().forward(images.flatten(1))
"""


@pytest.mark.parametrize("number", [2, 15])
def test_a_signal_ends_the_sweep_and_not_only_its_job(tmp_path, number):
    """The network sends it while the first job is scored: Ctrl-C, or SIGTERM."""
    (tmp_path / f"stopping_net{number}.py").write_text(NET.format(number=number))
    setting = (*SMALL[:-1], "generations=50", "seed=1,2", f"model._target_=stopping_net{number}.Net", "hydra.sweep.dir=sweep")
    done = neuro_inside("train", "-m", *setting, cwd=tmp_path)
    assert done.returncode == 130, done.stderr
    assert not (tmp_path / "sweep" / "1").exists()
    assert [row["state"] for row in rows_of(tmp_path / "sweep" / CSV)] == ["stopped"]


def test_report_refuses_in_one_line(tmp_path):
    assert one_line(neuro_inside("report", "nowhere", cwd=tmp_path)).startswith("nowhere: no run and no sweep of neuro ")
    assert "usage: neuro report" in one_line(neuro_inside("report", cwd=tmp_path))
    run = made(tmp_path / "run", BEGUN)
    (run / "summary.json").write_text("{")
    assert "summary.json: not a readable summary" in one_line(neuro_inside("report", "run", cwd=tmp_path))
    if os.getuid():  # root may write everywhere
        made(tmp_path / "sweep" / "0", BEGUN)
        (tmp_path / "sweep").chmod(0o500)
        assert "sweep.csv: cannot be written" in one_line(neuro_inside("report", "sweep", cwd=tmp_path))


DAMAGES = {
    "text for a number": (
        "summary.json",
        '"test_accuracy": 0.75',
        '"test_accuracy": "high"',
        "summary.json: test_accuracy=high: must be",
    ),
    "a number that is none": ("summary.json", "3.0", "NaN", "summary.json: wall_seconds=nan: must be a number"),
    "a list": ("summary.json", "{", "[", "summary.json: not a readable summary: "),
    "no object": ("summary.json", None, "[1]", "summary.json: not a readable summary: no JSON object"),
    "deep": ("summary.json", None, "[" * 100_000, "summary.json: not a readable summary: "),
    "a generation beyond all": ("metrics.csv", "2,0.25", "1e22,0.25", "metrics.csv: line 3 is no row"),
    "a generation that is infinite": ("metrics.csv", "2,0.25", "inf,0.25", "metrics.csv: line 3 is no row"),
    "a broken generation": ("metrics.csv", "2,0.25", "1.5,0.25", "metrics.csv: line 3 has generation 1.5 after 1"),
    "a doubled row": ("metrics.csv", "2,0.25", "1,0.25", "metrics.csv: line 3 has generation 1 after 1"),
    "another file": ("metrics.csv", "generation", "epoch", "metrics.csv: line 1 is no header"),
    "overrides": (".hydra/overrides.yaml", None, "a: 1", "overrides.yaml: not a list of overrides"),
    "a config": (".hydra/config.yaml", None, "a: &a [*a]", "config.yaml: not a readable config: "),
}


def test_damaged_runs_are_listed_among_the_others(tmp_path):
    """The file and the row of each are named, the other run is shown, and the page is written."""
    for run, (name, old, new, _) in DAMAGES.items():
        path = made(tmp_path / "sweep" / run, BEGUN, generations=10) / name
        text = path.read_text()
        path.write_text(new if old is None else text.replace(old, new, 1))
    made(tmp_path / "sweep" / "sound", BEGUN, generations=10)
    done = neuro_inside("report", "sweep", cwd=tmp_path)
    assert (done.returncode, done.stderr) == (0, "")
    assert (tmp_path / "sweep" / "report.html").exists()
    rows = {row["run"]: row for row in rows_of(tmp_path / "sweep" / CSV)}
    assert {name: row["state"] for name, row in rows.items()} == dict.fromkeys(DAMAGES, "damaged") | {"sound": "finished"}
    for run, (*_, reason) in DAMAGES.items():
        assert reason in rows[run]["reason"]
        alone = neuro_inside("report", f"sweep/{run}", "html=false", cwd=tmp_path)
        assert alone.returncode in (0, 2)
        assert reason.split(": ")[0] in "".join((alone.stdout + alone.stderr).split("\n"))
        assert "Traceback" not in alone.stderr
