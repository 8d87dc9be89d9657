"""A sweep outlives failures, kills and stops: finished jobs stay, the others continue, and every job trains once."""

import csv
import json
import os
import random
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
from hydra.core.utils import JobReturn, JobStatus
from omegaconf import OmegaConf
from support.inside import Done, neuro_inside, one_line, well
from support.worlds import clean_environment

from neuro_cli.cli.sweep.jobs import Left, left_in
from neuro_cli.cli.sweep.launcher import Rules, SweepLauncher
from neuro_cli.core.errors import UserError
from neuro_cli.run_folder.sweep_record import read_record

SMALL = ("population=8", "batch_size=16", "threads=1", "generations=2")
SEEDS = ("train", "-m", *SMALL, "seed=1,2,3")


def rows(sweep: Path) -> list[dict[str, str]]:
    with (sweep / "sweep.csv").open() as file:
        return list(csv.DictReader(file))


def hashes(sweep: Path, jobs: int) -> list[str]:
    return [json.loads((sweep / str(job) / "summary.json").read_text())["parameters_sha256"] for job in range(jobs)]


@pytest.fixture(scope="module")
def whole(tmp_path_factory) -> tuple[Path, Done]:
    """A sweep that nothing disturbed."""
    folder = tmp_path_factory.mktemp("whole")
    return folder, neuro_inside(*SEEDS, "hydra.sweep.dir=sweep", cwd=folder)


@pytest.fixture
def sweep(whole, tmp_path, monkeypatch) -> Path:
    """A copy of it, as if it had been begun in ``tmp_path``."""
    shutil.copytree(whole[0] / "sweep", tmp_path / "sweep")
    record = json.loads((tmp_path / "sweep" / "sweep.json").read_text())
    (tmp_path / "sweep" / "sweep.json").write_text(json.dumps(record | {"cwd": str(tmp_path)}))
    return tmp_path / "sweep"


def test_a_line_before_each_job_says_which_it_is(whole):
    _, done = whole
    assert done.returncode == 0, done.stderr
    assert [line for line in done.stdout.splitlines() if line.startswith("[")] == ["[1/3] seed=1", "[2/3] seed=2", "[3/3] seed=3"]


def test_a_sweep_drops_the_config_of_a_job_that_has_ended():
    """A thousand jobs would fill 0.4 GB."""
    config = OmegaConf.create({"hydra": {"runtime": {"choices": {"hydra/launcher": "basic"}}}})
    done = JobReturn(overrides=["seed=1"], cfg=config, hydra_cfg=config, status=JobStatus.COMPLETED)
    rules = Rules(continues=False, fail_fast=False, trust=None, launch=lambda jobs, first: [done], begins=lambda numbers: None)
    (kept,) = SweepLauncher(None, config, rules, ["seed"], 1).launch([["seed=1"]], 0)
    assert kept.cfg is None
    assert kept.hydra_cfg is None


def test_resume_leaves_out_what_is_finished_and_goes_on_with_the_rest(whole, sweep):
    first = (sweep / "0" / "summary.json").stat().st_mtime_ns
    (sweep / "1" / "summary.json").unlink()  # killed after its last checkpoint
    shutil.rmtree(sweep / "2")  # never begun
    done = well(neuro_inside("resume", "sweep", cwd=sweep.parent))
    lines = [line for line in done.stdout.splitlines() if line.startswith("[")]
    assert lines == ["[1/3] seed=1: finished already", "[2/3] seed=2: resumes from its last checkpoint", "[3/3] seed=3"]
    assert (sweep / "0" / "summary.json").stat().st_mtime_ns == first
    assert hashes(sweep, 3) == hashes(whole[0] / "sweep", 3)
    assert [row["state"] for row in rows(sweep)] == ["finished"] * 3
    for job in range(3):
        with (sweep / str(job) / "metrics.csv").open() as file:
            assert [row["generation"] for row in csv.DictReader(file)] == ["1", "2"]


@pytest.mark.slow
def test_the_same_command_goes_on_and_another_one_is_refused(sweep):
    shutil.rmtree(sweep / "1")
    done = well(neuro_inside(*SEEDS, "hydra.sweep.dir=sweep", cwd=sweep.parent))
    assert "[1/3] seed=1: finished already" in done.stdout
    assert "[2/3] seed=2\n" in done.stdout
    before = sorted(path.stat().st_mtime_ns for path in sweep.rglob("*") if path.name != ".lock")
    line = one_line(neuro_inside(*SEEDS[:-1], "seed=1,2", "hydra.sweep.dir=sweep", cwd=sweep.parent))
    assert line.startswith("hydra.sweep.dir=sweep: already contains a run or another sweep")
    assert "neuro resume sweep" in line
    assert sorted(path.stat().st_mtime_ns for path in sweep.rglob("*") if path.name != ".lock") == before


def test_a_failed_job_leaves_the_others_and_begins_anew(tmp_path):
    """Its network gives NaN as long as a file exists."""
    (tmp_path / "nan_net.py").write_text(
        "import torch\nfrom pathlib import Path\n\nclass Net(torch.nn.Linear):\n    def __init__(self):\n"
        "        super().__init__(64, 10)\n\n    def forward(self, images):\n"
        "        return super().forward(images.flatten(1)) * (float('nan') if Path('broken').exists() else 1.0)\n"
    )
    (tmp_path / "broken").touch()
    line = ("train", "-m", *SMALL, "model._target_=nan_net.Net", "population=7,8", "hydra.sweep.dir=sweep")
    done = neuro_inside(*line, cwd=tmp_path)
    assert done.returncode == 2
    assert len(done.stderr.splitlines()) == 2  # a line for each
    assert [row["state"] for row in rows(tmp_path / "sweep")] == ["failed", "failed"]
    (tmp_path / "broken").unlink()
    assert one_line(neuro_inside("resume", "sweep", cwd=tmp_path)).startswith(
        "model._target_=nan_net.Net: it runs code of nan_net"
    )
    done = neuro_inside("resume", "sweep", "trust=nan_net", cwd=tmp_path)
    assert done.stderr.splitlines() == ["neuro: error: population=7: antithetic pairs need an even population"]
    assert "[2/2] population=8: failed before: begins again" in done.stdout
    assert [row["state"] for row in rows(tmp_path / "sweep")] == ["failed", "finished"]


@pytest.mark.slow
def test_fail_fast_ends_at_the_first_failure(tmp_path):
    line = ("train", "-m", *SMALL, "population=7,8", "hydra.sweep.dir=sweep", "sweep.fail_fast=true")
    assert neuro_inside(*line, cwd=tmp_path).returncode == 2
    assert [row["state"] for row in rows(tmp_path / "sweep")] == ["failed"]


@pytest.mark.parametrize(
    ("arguments", "text"),
    [
        (["-m", "hydra.launcher._target_=os.system"], "it may run code, so type the sweep's command again"),
        (["-m", "hydra.job_logging.handlers.x.class=os.system"], "it may run code"),
        (["-m", "--config-dir=elsewhere"], "it may run code"),
        (["-m", "hydra.launcher.setup=[rm]"], "it may run code"),
        (["-m", "~hydra.callbacks.sweep"], "it may run code"),
        (["-m", "seed=1,2", "model=other.yaml"], "other.yaml: it has a defaults list"),
        (["-m", "seed=1,2", "task._target_=os.system"], "task._target_=os.system: it runs code of os"),
    ],
)
def test_a_strangers_sweep_runs_no_code(sweep, arguments, text):
    record = json.loads((sweep / "sweep.json").read_text())
    (sweep / "sweep.json").write_text(json.dumps(record | {"arguments": arguments}))
    (sweep.parent / "other.yaml").write_text("defaults: [x]\n_target_: neuro_cli.model.blog_cnn.BlogCNN\n")
    shutil.rmtree(sweep / "1")
    assert text in one_line(neuro_inside("resume", "sweep", cwd=sweep.parent))
    assert not (sweep / "1").exists()


@pytest.mark.parametrize("content", ["", "[]", "{}", '{"format": 2}', '{"format": 1, "verb": 3}', "[" * 100_000, "\xff"])
def test_a_damaged_record_is_refused_in_one_line(sweep, content):
    (sweep / "sweep.json").write_bytes(content.encode("latin-1"))
    with pytest.raises(UserError, match=r"sweep\.json: not a readable record of a sweep"):
        read_record(sweep)
    assert "sweep.json: not a readable record" in one_line(neuro_inside("resume", "sweep", cwd=sweep.parent))


def test_a_job_with_other_overrides_is_not_lost(sweep):
    """A sweeper that draws its values at random draws others the next time."""
    (sweep / "1" / ".hydra" / "overrides.yaml").write_text("- seed=9\n")
    line = one_line(neuro_inside("resume", "sweep", cwd=sweep.parent))
    assert line.startswith("sweep/1: holds a job with other overrides than population=8")


def test_what_a_sweep_takes_along(sweep):
    assert one_line(neuro_inside("resume", "sweep", "generations=3", cwd=sweep.parent)).startswith(
        "generations=3: a sweep resumes as it began"
    )
    assert one_line(neuro_inside("train", "-m", "seed=1,2", "sweep.detach=true", cwd=sweep.parent)).startswith(
        "sweep.detach=True"
    )
    assert one_line(neuro_inside("train", "sweep.fail_fast=3", cwd=sweep.parent)).startswith("sweep.fail_fast=3: must be")


def test_what_a_kill_can_leave(sweep):
    run = sweep / "0"
    assert left_in(run) is Left.FINISHED
    config = run / ".hydra" / "config.yaml"
    whole = config.read_text()
    for torn in ("", whole[:40], "generations: ${x}\n"):  # Hydra writes it again for each start of the job
        config.write_text(torn)
        assert left_in(run) is Left.CUT_OFF
    config.write_text(whole.replace("generations: 2", "generations: 3"))
    assert left_in(run) is Left.CUT_OFF
    config.write_text(whole.replace("metric: null", "metric: test_accuracy").replace("at: null", "at: 0.0"))
    (run / "summary.json").write_text((run / "summary.json").read_text().replace('"generations": 2', '"generations": 1'))
    assert left_in(run) is Left.FINISHED  # it has reached its goal
    assert left_in(sweep / "nowhere") is Left.NOTHING


def trained(sweep: Path) -> int:
    """Rows of metrics of all jobs."""
    return sum(max(0, path.read_bytes().count(b"\n") - 1) for path in sweep.glob("*/metrics.csv"))


@pytest.mark.slow
@pytest.mark.timeout(3600)
def test_kills_at_random_change_no_row_of_the_table(tmp_path):
    jobs, kills = 6, 2
    setting = (*SMALL[:-1], "generations=12", "checkpoint.every=5", "evaluate.every=100")
    line = [sys.executable, "-m", "neuro_cli", "train", "-m", *setting, f"seed=range(1,{jobs + 1})"]
    well(subprocess.run([*line, "hydra.sweep.dir=calm"], cwd=tmp_path, env=clean_environment(), capture_output=True, text=True))
    draw, sweep, killed = random.Random(1), tmp_path / "sweep", 0
    command = [*line, "hydra.sweep.dir=sweep"]
    while killed < kills:
        process = subprocess.Popen(command, cwd=tmp_path, env=clean_environment(), stdout=subprocess.DEVNULL)
        goal = trained(sweep) + draw.randint(1, max(1, 12 * jobs // (2 * kills)))
        deadline = time.monotonic() + 300
        while trained(sweep) < goal and process.poll() is None and time.monotonic() < deadline:
            time.sleep(draw.uniform(0.001, 0.05))
        assert process.poll() is None, "the sweep ended before it was killed often enough"
        os.kill(process.pid, signal.SIGKILL)
        process.wait()
        killed += 1
        command = [sys.executable, "-m", "neuro_cli", "resume", "sweep"]
    well(subprocess.run(command, cwd=tmp_path, env=clean_environment(), capture_output=True, text=True))
    assert hashes(sweep, jobs) == hashes(tmp_path / "calm", jobs)
    for row, other in zip(rows(sweep), rows(tmp_path / "calm"), strict=True):
        same = {"run", "seed", "state", "generations", "test_accuracy", "ranks", "reason"}
        assert {key: row[key] for key in same} == {key: other[key] for key in same}
    for job in range(jobs):
        with (sweep / str(job) / "metrics.csv").open() as file:
            assert [int(row["generation"]) for row in csv.DictReader(file)] == list(range(1, 13))


NETS_THAT_LOAD = """
from torch import nn

class Slow(nn.Module):
    def __init__(self):
        raise KeyboardInterrupt  # as Ctrl-C in its constructor
"""


def test_ctrl_c_while_the_first_job_loads_leaves_no_folder(tmp_path):
    (tmp_path / "nets_that_load.py").write_text(NETS_THAT_LOAD)
    done = neuro_inside("train", "-m", *SMALL, "seed=1,2", "model._target_=nets_that_load.Slow", cwd=tmp_path)
    assert (done.returncode, done.stderr) == (130, "neuro: interrupted\n")
    assert not (tmp_path / "outputs").exists()
