"""``scripts/tree.py``: docs/tree.md says of every file what the file says of itself."""

import runpy
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
SCRIPT = ROOT / "scripts" / "tree.py"
TREE = runpy.run_path(str(SCRIPT))


@pytest.mark.skipif(not (ROOT / ".git").exists(), reason="not a git checkout: which files are ours is git's to say")
def test_the_page_names_every_file_with_its_own_first_line():
    page = (ROOT / "docs" / "tree.md").read_text()
    assert page == TREE["page"](), "python scripts/tree.py writes it anew"
    assert f"\n  {SCRIPT.name:<34} Writes docs/tree.md: " in page


def test_a_stale_page_and_a_file_without_a_line_are_found(tmp_path):
    for folder in ("docs", "scripts", "neuro_cli", "conf"):
        (tmp_path / folder).mkdir()
    shutil.copy(SCRIPT, tmp_path / "scripts")
    (tmp_path / "neuro_cli" / "one.py").write_text('"""Counts.\n\nAnd more."""\n')
    (tmp_path / "conf" / "two.yaml").write_text("# @package _global_\n# a setting\na: 1\n")
    subprocess.run(["git", "init", "--quiet", str(tmp_path)], check=True)
    stale = script(tmp_path, "--check")
    assert stale.returncode == 1
    assert stale.stderr == "docs/tree.md is not what the files say: python scripts/tree.py\n"
    assert script(tmp_path).returncode == script(tmp_path, "--check").returncode == 0
    text = (tmp_path / "docs" / "tree.md").read_text()
    assert f"neuro_cli/\n  {'one.py':<34} Counts\n" in text
    assert f"conf/\n  {'two.yaml':<34} a setting\n" in text
    (tmp_path / "neuro_cli" / "dumb.py").write_text("x = 1\n")
    assert "neuro_cli/dumb.py: no comment, docstring or title" in script(tmp_path).stderr


def script(folder: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run([sys.executable, str(folder / "scripts" / "tree.py"), *arguments], capture_output=True, text=True)
