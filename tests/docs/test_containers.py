"""Definitions of images: they copy what is there, and install extras of the project. They are built where the tools are."""

import re
import tomllib

import pytest
import yaml
from doc_commands import ROOT

PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
FILES = {"Dockerfile": r"^COPY (.+) \S+$", "neuro.def": r"^    (\S+) /opt/\S+$"}


@pytest.mark.parametrize("name", FILES)
def test_an_image_copies_what_is_there_and_installs_extras_of_the_project(name):
    text = (ROOT / name).read_text()
    copied = [path for line in re.findall(FILES[name], text, re.MULTILINE) for path in line.split()]
    assert {"pyproject.toml", "neuro_cli", "hydra_plugins", "conf", "README.md", "LICENSE"} <= set(copied)
    assert [path for path in copied if not (ROOT / path).exists()] == []
    extras = re.search(r"EXTRAS=(\S+)|\.\[([a-z,]+)\]", text)
    assert extras is not None
    assert set((extras[1] or extras[2]).split(",")) <= set(PROJECT["optional-dependencies"])
    version = re.search(r"python:(3\.\d+)-slim", text)
    assert version is not None
    assert f"Programming Language :: Python :: {version[1]}" in PROJECT["classifiers"]


def test_the_workflow_runs_what_ci_runs():
    jobs = yaml.safe_load((ROOT / ".github" / "workflows" / "ci.yml").read_text())["jobs"]
    assert jobs["tests"]["steps"][-1] == {"run": ".ci/run"}
    low, high = re.findall(r"3\.\d+", PROJECT["requires-python"])
    for version in jobs["tests"]["strategy"]["matrix"]["python"]:
        assert low <= version < high


def test_the_package_says_that_it_is_typed():
    assert (ROOT / "neuro_cli" / "py.typed").is_file()
