"""``scripts/newcomer.sh`` has a step for each thing that the README promises."""

import re
import subprocess
from pathlib import Path

import pytest

SCRIPT = Path(__file__).parents[2] / "scripts" / "newcomer.sh"


WRONG = [
    ["/dev/null"],
    ["--env", "/nowhere/at/all"],
    ["--env", "nowhere"],
    ["--from", "two", "new"],
    ["--from", "2", "new"],  # no earlier try
    ["--form", "2", "new"],
]


@pytest.mark.parametrize("arguments", WRONG, ids=" ".join)
def test_it_writes_into_a_new_folder_only(arguments, tmp_path):
    done = subprocess.run(["bash", str(SCRIPT), *arguments], capture_output=True, text=True, cwd=tmp_path, timeout=60)
    assert done.returncode != 0
    assert list(tmp_path.iterdir()) == []


def test_it_goes_on_from_a_step(tmp_path):
    """From the last one, by a stand-in for neuro in an environment that has all: its own checks run, those before it do not."""
    last = len(re.findall(r"^(?:if .*; then )?checks \"", SCRIPT.read_text(), re.MULTILINE))
    stand_in = tmp_path / "env" / "bin"
    stand_in.mkdir(parents=True)
    for name, what in (("neuro", "echo neuro: error: nothing of the kind; exit 2"), ("python", "exit 0")):
        (stand_in / name).write_text(f"#!/bin/sh\n{what}\n")
        (stand_in / name).chmod(0o755)
    (tmp_path / "tried").mkdir()
    script = SCRIPT.read_text().replace("step neuro --version\nstep neuro doctor\n", "")
    (tmp_path / "scripts").mkdir()
    (tmp_path / "scripts" / "newcomer.sh").write_text(script)
    command = ["bash", "scripts/newcomer.sh", "--env", "env", "--from", str(last), "tried"]
    done = subprocess.run(command, capture_output=True, text=True, cwd=tmp_path, timeout=60)
    assert done.returncode == 1
    assert re.findall(r"^== (\d+)", done.stdout, re.MULTILINE) == [str(last)]
    assert "[exit code 2; expected 2, one line with 'did you mean train?', and no new file]" in done.stdout
