"""summary.json has every key that scripts read, and names what computed it."""

import hashlib
import json
import logging
import re
import struct
import subprocess
from pathlib import Path

import pytest
import safetensors
import torch

import neuro_cli
from neuro_cli.run_folder import summary
from neuro_cli.run_folder.summary import SUMMARY_KEYS, git_revision, parameters_sha256, versions, write_summary


def test_keys_and_order(tmp_path: Path) -> None:
    path = tmp_path / "summary.json"
    path.write_text("old")
    write_summary(path, {"mean_return": 200.5, "ranks": 2, "test_loss": 0.1, "versions": versions()})
    found = json.loads(path.read_text())
    given = ["mean_return", "ranks", "test_loss", "versions"]
    assert list(found) == [*given, *(key for key in SUMMARY_KEYS if key not in given)]
    assert (found["device"], found["test_loss"], found["mean_return"]) == (None, 0.1, 200.5)
    assert [entry.name for entry in tmp_path.iterdir()] == ["summary.json"]


def test_what_json_has_not(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture) -> None:
    monkeypatch.setattr(logging.getLogger("neuro_cli"), "propagate", True)  # a run in this process cuts it off
    with caplog.at_level(logging.WARNING):
        write_summary(tmp_path / "summary.json", {"test_loss": float("nan")})
    assert json.loads((tmp_path / "summary.json").read_text())["test_loss"] is None
    assert "summary.json: test_loss is nan" in caplog.text


def test_versions() -> None:
    found = versions("MPICH 5")
    assert list(found) == ["python", "neuro", "torch", "numpy", "numba", "mpi"]
    assert found["mpi"] == "MPICH 5"
    assert found["neuro"] == neuro_cli.__version__
    assert all(re.match(r"\d+\.\d+", str(found[name])) for name in list(found)[:-1])


@pytest.mark.parametrize("environment", [{}, {"GIT_DIR": "/nowhere", "GIT_WORK_TREE": "/"}])
def test_git_revision(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, environment: dict[str, str]) -> None:
    for name, value in environment.items():
        monkeypatch.setenv(name, value)
    package = tmp_path / "neuro_cli" / "run_folder" / "summary.py"
    package.parent.mkdir(parents=True)
    package.write_text("")
    monkeypatch.setattr(summary, "__file__", str(package))
    asked = git_revision.__wrapped__
    assert asked() is None

    def git(*arguments: str) -> str:
        identity = ["-c", "user.name=tester", "-c", "user.email=tester@example.org"]
        command = ["env", "-u", "GIT_DIR", "-u", "GIT_WORK_TREE", "git", "-C", str(tmp_path), *identity, *arguments]
        return subprocess.run(command, check=True, capture_output=True, text=True).stdout.strip()

    git("init", "--quiet")
    assert asked() is None
    git("add", ".")
    git("commit", "--quiet", "--message", "first")
    git("tag", "--annotate", "v1", "--message", "a tag must not replace the revision")
    revision = git("rev-parse", "HEAD")
    assert asked() == revision
    package.write_text("changed = True\n")
    assert asked() == f"{revision}-dirty"
    # installed below somebody's repository, not in it
    inner = tmp_path / "site-packages" / "neuro_cli" / "run_folder" / "summary.py"
    monkeypatch.setattr(summary, "__file__", str(inner))
    assert asked() is None


def test_parameters_sha256() -> None:
    values = [0.0, -0.0, 1.5, float("inf"), 3e-45]
    expected = hashlib.sha256(struct.pack("<5f", *values)).hexdigest()
    assert parameters_sha256(torch.tensor(values)) == expected
    assert parameters_sha256(torch.tensor(values).repeat_interleave(2)[::2]) == expected
    assert parameters_sha256(torch.tensor(values, requires_grad=True)) == expected
    assert parameters_sha256(torch.tensor([0.0])) != parameters_sha256(torch.tensor([-0.0]))
    assert parameters_sha256(torch.tensor(values).bfloat16()) == parameters_sha256(torch.tensor(values).bfloat16().float())
    for wrong in (torch.zeros(2, dtype=torch.float64), torch.zeros(2, 2)):
        with pytest.raises(ValueError, match="a flat vector of float32 or bfloat16 is hashed"):
            parameters_sha256(wrong)


def test_versions_of_the_packages_of_a_task() -> None:
    found = versions(packages=("numpy", "safetensors", "no-such-package"))
    assert list(found) == ["python", "neuro", "torch", "numpy", "numba", "safetensors", "mpi"]
    assert found["safetensors"] == safetensors.__version__
