"""Files about the project: citation, licence, changes and version, reports of bugs, hooks."""

import re
import subprocess
from pathlib import Path

import pytest
import yaml

from neuro_cli import __version__

ROOT = Path(__file__).parents[2]
CHANGES = re.findall(r"^## (\S+) \((unreleased|20\d\d-\d\d-\d\d)\)$", (ROOT / "CHANGELOG.md").read_text(), re.MULTILINE)


def test_the_changes_begin_with_this_version():
    assert CHANGES[0][0] == __version__
    assert [when for _, when in CHANGES[1:] if when == "unreleased"] == []


def test_a_tagged_version_is_no_longer_unreleased():
    done = subprocess.run(["git", "tag", "--list", "v*"], cwd=ROOT, capture_output=True, text=True, timeout=60)
    if done.returncode:
        pytest.skip("not a clone")
    dated = {f"v{version}" for version, when in CHANGES if when != "unreleased"}
    assert set(done.stdout.split()) <= dated


def test_the_citation_file_is_of_this_version():
    citation = yaml.safe_load((ROOT / "CITATION.cff").read_text())
    assert citation["cff-version"] == "1.2.0"
    assert citation["version"] == __version__
    assert citation["license"] == "Apache-2.0"
    assert {"message", "title", "authors", "type"} <= citation.keys()
