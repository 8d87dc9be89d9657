"""Real ranks on emulated hosts: messages cross the switch at its rate and delay, and nothing is left behind."""

import json
import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest
from support.forked import Forked
from support.inside import neuro_inside, well
from support.waiting import until
from support.worlds import clean_environment, needs_mpi, neuro, wait_for_rows

from neuro_cli.fabric.emulation.enter_host import placed
from neuro_cli.fabric.emulation.hosts import address, code_of
from neuro_cli.fabric.emulation.netns import missing_rights
from neuro_cli.fabric.emulation.switch import _wire_time
from neuro_cli.fabric.network import Network
from neuro_cli.launch.launcher import world_start

HERE = Path(__file__).parent
emulates = [needs_mpi, pytest.mark.skipif(bool(missing_rights()), reason=missing_rights() or "-")]
EMULATED = ("fabric=ethernet_1g", "fabric.emulate=true", "ranks=2", "distribution=chromosome_updates")
SMALL = ("population=8", "batch_size=16")


def held_namespaces() -> set[str]:
    """Namespaces that would outlive their processes: a mount holds them."""
    return {line.split(" ", 3)[3] for line in Path("/proc/self/mountinfo").read_text().splitlines() if " nsfs " in line}


def our_processes() -> list[int]:
    """Processes of worlds that neuro started, of this test run or not."""
    found = []
    for process in Path("/proc").glob("[0-9]*"):
        try:
            environment = (process / "environ").read_bytes()
            command = (process / "cmdline").read_bytes()
        except OSError:
            continue
        if MARK.encode() in environment and command:
            found.append(int(process.name))
    return found


MARK = f"NEURO_TEST_MARK=emulation-{os.getpid()}"


@pytest.fixture
def nothing_left():
    """No process, so no namespace either: nothing else holds one. Files in /tmp are as they were."""
    held, files = held_namespaces(), set(os.listdir("/tmp"))
    yield
    until(lambda: our_processes() == [])
    assert held_namespaces() - held == set()
    # a task cluster belongs to another test that runs now
    others = "neuro-cluster-"
    new = [name for name in set(os.listdir("/tmp")) - files if not name.startswith(others)]
    left = [name for name in new if "neuro" in name or "mpich" in name]
    assert left == []


def start(*arguments: str, cwd: Path) -> subprocess.Popen[str]:
    key, value = MARK.split("=")
    command = [sys.executable, "-m", "neuro_cli", *arguments]
    return Forked(
        command, cwd=cwd, env=clean_environment() | {key: value}, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    )


def measured(ranks: int, rate: float, latency: float, size: int) -> dict[str, float]:
    network = Network("made", rate=rate, latency=latency, emulate=True)
    start = world_start(ranks, [sys.executable, str(HERE / "network_program.py"), str(size)], network)
    kept = {name: value for name, value in start.environment.items() if not name.startswith(("PMI_", "PMIX_"))}
    done = well(subprocess.run(start.command, env=kept, capture_output=True, text=True, timeout=120))
    return json.loads(done.stdout)


class TestSwitch:
    pytestmark = emulates

    def test_rate_and_delay_are_lower_bounds_and_messages_cross_the_interface(self, nothing_left):
        size, times = 1_000_000, []
        for ranks, rate, latency in ((3, 2e8, 5e-3), (2, 1e10, 2e-5)):
            found = measured(ranks, rate, latency, size)
            assert found["hosts"] == [f"host{rank}" for rank in range(ranks)]
            assert found["trip"] >= 2 * latency
            assert found["gather"] >= (ranks - 1) * size * 8 / rate
            assert found["sent"] >= 5 * (ranks - 1) * size  # a ring passes all other blocks on
            assert found["received"] >= 5 * (ranks - 1) * size
            times.append(found)
        slow, fast = times
        assert fast["trip"] < slow["trip"] / 3  # shortest trips: a busy machine delays most of them
        assert fast["gather"] < slow["gather"] / 3


def test_every_segment_of_a_frame_pays_for_its_headers():
    frame = bytearray(12 + 64)
    length = 10 + 66 + 60_000
    assert _wire_time(frame, length, 1e9) == (66 + 60_000 + 24) * 8
    frame[1], frame[2], frame[4], frame[5] = 1, 66, 1448 & 255, 1448 >> 8
    segments = -(-60_000 // 1448)
    assert _wire_time(frame, length, 1e9) == (60_000 + segments * (66 + 24)) * 8
    assert _wire_time(frame, length, 0.0) == 0


def test_a_rank_finds_its_host_by_its_rank_or_by_the_address_that_a_launcher_gives():
    assert placed(["python", "-m", "x"], ["1"], 3) == (1, ["python", "-m", "x"])
    assert placed([address(2), "prted", "-a", "'b c'"], [], 4) == (2, ["sh", "-c", "prted -a 'b c'"])
    assert placed(["-x", address(0), "prted"], [], 4) == (0, ["sh", "-c", "prted"])


def test_exit_codes_are_a_shells():
    assert [code_of(value) for value in (0, 3, -9)] == [0, 3, 137]


class TestTraining:
    pytestmark = emulates

    @pytest.mark.slow  # default tests: without the network (tests/mpi), and the kill of a runner behind it
    def test_a_run_over_the_network_has_the_bits_of_one_without(self, tmp_path, nothing_left):
        setting = (*SMALL, "generations=3")
        well(neuro("train", *EMULATED, *setting, "hydra.run.dir=emulated", cwd=tmp_path))
        well(neuro_inside("train", *setting, "hydra.run.dir=local", cwd=tmp_path))
        one, other = (json.loads((tmp_path / name / "summary.json").read_text()) for name in ("emulated", "local"))
        assert one["parameters_sha256"] == other["parameters_sha256"]
        assert one["ranks"] == 2

    @pytest.mark.slow  # default tests: runner/test_resume.py without the network, and the next test behind it
    def test_a_signal_ends_the_run_cleanly(self, tmp_path, nothing_left):
        process = start("train", *EMULATED, *SMALL, "generations=1000000", "hydra.run.dir=run", cwd=tmp_path)
        wait_for_rows(tmp_path / "run", 4, process)
        process.send_signal(signal.SIGTERM)
        _, errors = process.communicate(timeout=240)
        assert process.returncode == 0, errors
        assert "continue with: neuro resume run" in errors
        assert (tmp_path / "run" / "summary.json").exists()

    def test_killing_the_runner_takes_everything_with_it(self, tmp_path, nothing_left):
        process = start("train", *EMULATED, *SMALL, "generations=1000000", "hydra.run.dir=run", cwd=tmp_path)
        wait_for_rows(tmp_path / "run", 4, process)
        assert len(our_processes()) > 5  # ranks, their launcher, the switch, ...
        process.kill()
        process.communicate()  # ends when the last process has closed the pipes

    @pytest.mark.slow  # default tests kill the runner
    def test_without_its_switch_a_run_ends(self, tmp_path, nothing_left):
        process = start("train", *EMULATED, *SMALL, "generations=1000000", "hydra.run.dir=run", cwd=tmp_path)
        wait_for_rows(tmp_path / "run", 4, process)
        module = b"neuro_cli.fabric.emulation.hosts"
        chain = sorted(pid for pid in our_processes() if module in Path(f"/proc/{pid}/cmdline").read_bytes())
        assert len(chain) == 3  # who waits, the first of the namespace, the switch
        os.kill(chain[-1], signal.SIGKILL)
        _, errors = process.communicate(timeout=240)
        assert process.returncode == 1
        assert "the switch between the ranks has ended" in errors

    @pytest.mark.slow  # default tests kill the runner and the switch here, and ranks without a network in tests/launch
    def test_killing_a_rank_ends_the_run(self, tmp_path, nothing_left):
        process = start("train", *EMULATED, *SMALL, "generations=1000000", "hydra.run.dir=run", cwd=tmp_path)
        wait_for_rows(tmp_path / "run", 4, process)
        ranks = [pid for pid in our_processes() if b"start\0run" in Path(f"/proc/{pid}/cmdline").read_bytes()]
        ranks = [pid for pid in ranks if b"PMI_RANK=1" in Path(f"/proc/{pid}/environ").read_bytes()]
        os.kill(ranks[0], signal.SIGKILL)
        process.communicate(timeout=240)
        assert process.returncode not in (0, 2)
