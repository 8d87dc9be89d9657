"""Definitions of images and the workflow: they copy what exists, and install extras and Pythons of the project."""

import re
import tomllib
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
FILES = {"Dockerfile": r"^COPY (.+) \S+$", "neuro.def": r"^    (\S+) /opt/\S+$"}


@pytest.mark.parametrize("name", FILES)
def test_an_image_copies_what_exists_and_installs_extras_of_the_project(name):
    text = (ROOT / name).read_text()
    copied = [path for line in re.findall(FILES[name], text, re.MULTILINE) for path in line.split()]
    assert {"pyproject.toml", "neuro_cli", "conf", "README.md", "LICENSE"} <= set(copied)
    assert [path for path in copied if not (ROOT / path).exists()] == []
    extras = re.search(r"EXTRAS=(\S+)|\.\[([a-z,]+)\]", text)
    version = re.search(r"python:(3\.\d+)-slim", text)
    assert extras is not None
    assert version is not None
    assert set((extras[1] or extras[2]).split(",")) <= set(PROJECT["optional-dependencies"])
    assert f"Programming Language :: Python :: {version[1]}" in PROJECT["classifiers"]
