"""``neuro scale`` on real worlds, at the smallest size."""

import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
from support.inside import neuro_inside, well
from support.tables import rows_of
from support.waiting import until
from support.worlds import clean_environment, needs_mpi

from neuro_cli.fabric.emulation.netns import missing_rights

pytestmark = needs_mpi

SMALL = ("model=MNIST_10K", "populations=[4]", "strong=[8]", "rounds=1", "repeats=2", "warmup=1", "batch_size=8")
# two threads: on two cores one rank of a larger world is timed at once, which saves the start of another
THREADS = ("threads=2",)
emulates = pytest.mark.skipif(bool(missing_rights()), reason=missing_rights() or "-")


def lines(run: Path) -> list[dict[str, str]]:
    return rows_of(run / "scaling.csv")


@emulates
@pytest.mark.slow
@pytest.mark.parametrize("fabrics", [["ethernet_1g"], ["native", "ethernet_1g"]])
def test_methods_are_measured_on_networks_and_projected(tmp_path, fabrics):
    methods = "methods=[semi_updates,chromosome_updates,replicated_sign_flip]"
    setting = (*SMALL, methods, f"fabrics=[{','.join(fabrics)}]", "projected_ranks=[2,64]", "hydra.run.dir=run")
    well(neuro_inside("scale", *setting, cwd=tmp_path))
    found = lines(tmp_path / "run")
    assert len(found) == len(fabrics) * 3 * (3 + 2)  # 8 members in all cannot serve 64 ranks
    assert {line["source"] for line in found if line["ranks"] == "64"} <= {"projected", "projected (extrapolated)"}
    assert all((tmp_path / "run" / name).exists() for name in ("weak.png", "strong.png", "scaling.md"))

    def sent(method: str, key: str) -> float:
        row = next(r for r in found if (r["method"], r["fabric"], r["ranks"]) == (method, "ethernet_1g", "2"))
        return float(row[key])

    su, cu, structured = (sent(method, "interface_sent") for method in methods[9:-1].split(","))
    gradient = 4 * 11_274
    assert su == pytest.approx(gradient, rel=0.1)  # 2 (N - 1) / N of it, with headers
    assert cu == pytest.approx(gradient / 2, rel=0.15)
    assert structured < 2_000
    assert sent("semi_updates", "bytes_sent") == pytest.approx(2 * sent("chromosome_updates", "bytes_sent"), rel=0.01)


def test_project_alone_starts_no_ranks_and_needs_no_rights(tmp_path):
    setting = (*SMALL, *THREADS, "methods=[chromosome_updates]", "fabrics=[ethernet_1g,infiniband_fdr]", "projected_ranks=[2]")
    well(neuro_inside("scale", *setting, "project=true", "hydra.run.dir=run", cwd=tmp_path))
    found = lines(tmp_path / "run")
    assert {line["source"] for line in found if line["ranks"] != "1"} == {"projected"}
    assert {line["interface_sent"] for line in found} == {""}


def test_without_a_cost_model_nothing_is_projected(tmp_path):
    done = neuro_inside("scale", *SMALL, "project=true", cwd=tmp_path)
    assert done.returncode == 2
    said = "neuro: error: project=True: fabric native has no cost model to project with; give others in fabrics"
    assert done.stderr.splitlines() == [said]


@pytest.mark.slow  # by default Ctrl-C ends a run (tests/docs/test_commands_run.py)
def test_ctrl_c_ends_the_worlds_too(tmp_path):
    setting = [*SMALL, "repeats=100000", "hydra.run.dir=run"]
    environment = clean_environment() | {"NEURO_TEST_MARK": str(tmp_path)}
    process = subprocess.Popen([sys.executable, "-m", "neuro_cli", "scale", *setting], cwd=tmp_path, env=environment,
                               stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)  # fmt: skip
    until((tmp_path / "run" / "worlds" / "round_1").exists)
    time.sleep(4)
    process.send_signal(signal.SIGINT)
    _, errors = process.communicate(timeout=240)
    assert process.returncode not in (0, 2)
    assert "ended with exit code" in errors
    until(lambda: _marked(tmp_path) == [])  # mpiexec ends a moment before the last of its ranks


def _marked(folder: Path) -> list[Path]:
    return [path for path in Path("/proc").glob("[0-9]*/environ") if str(folder).encode() in _read(path)]


def _read(path: Path) -> bytes:
    try:
        return path.read_bytes()
    except OSError:
        return b""
