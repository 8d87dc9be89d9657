"""``scripts/newcomer.sh`` is one of bash, and has a step for each thing that the README promises."""

import re
import subprocess
from pathlib import Path

import pytest

from neuro_cli.cli.registry import listed

SCRIPT = Path(__file__).parents[2] / "scripts" / "newcomer.sh"


def test_it_is_a_script_of_bash():
    done = subprocess.run(["bash", "-n", str(SCRIPT)], capture_output=True, text=True, timeout=60)
    assert (done.returncode, done.stderr) == (0, "")


def test_it_uses_every_verb():
    text = SCRIPT.read_text()
    unused = {verb for verb in listed() if not re.search(rf"neuro {verb}\b", text)}
    assert unused == {"scale", "reproduce"}  # minutes and hours of measurements


@pytest.mark.parametrize("arguments", [["/dev/null"], ["--env", "/nowhere/at/all"]])
def test_it_writes_into_a_new_folder_only(arguments, tmp_path):
    done = subprocess.run(["bash", str(SCRIPT), *arguments], capture_output=True, text=True, cwd=tmp_path, timeout=60)
    assert done.returncode != 0
    assert list(tmp_path.iterdir()) == []
