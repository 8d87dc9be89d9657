"""Files about the project: citation, changes and version, definitions of images; extras and the name of the distribution."""

import re
import subprocess
import tomllib
from pathlib import Path

import pytest
import yaml

from neuro_cli import __version__
from neuro_cli.core.messages import install as installing
from neuro_cli.core.messages.install import DISTRIBUTION, install

ROOT = Path(__file__).parents[2]
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
IMAGES = {"Dockerfile": r"^COPY (.+) \S+$", "neuro.def": r"^    (\S+) /opt/\S+$"}
EXTRAS = PROJECT["optional-dependencies"]
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


@pytest.mark.parametrize("name", IMAGES)
def test_an_image_copies_what_exists_and_installs_extras_of_the_project(name):
    text = (ROOT / name).read_text()
    copied = [path for line in re.findall(IMAGES[name], text, re.MULTILINE) for path in line.split()]
    assert {"pyproject.toml", "neuro_cli", "conf", "README.md", "LICENSE"} <= set(copied)
    assert [path for path in copied if not (ROOT / path).exists()] == []
    extras = re.search(r"EXTRAS=(\S+)|\.\[([a-z,]+)\]", text)
    version = re.search(r"python:(3\.\d+)-slim", text)
    assert extras is not None
    assert version is not None
    assert set((extras[1] or extras[2]).split(",")) <= set(PROJECT["optional-dependencies"])
    assert f"Programming Language :: Python :: {version[1]}" in PROJECT["classifiers"]


def test_every_extra_that_is_named_is_one_of_the_project():
    sources = "".join(path.read_text() for path in (ROOT / "neuro_cli").rglob("*.py"))
    needs = [need for needs in EXTRAS.values() for need in needs if need.startswith("neuro")]
    named = set(re.findall(r"""\binstall\(["'](\w+)["']\)""", sources))
    named |= {extra for need in needs for extra in re.fullmatch(rf"{DISTRIBUTION}\[(.+)\]", need)[1].split(",")}  # type: ignore[index]
    assert {"mpi", "rl", "search", "slurm", "evolve", "tensorboard"} <= named <= EXTRAS.keys()


def test_a_command_names_the_clone_until_the_distribution_is_published(monkeypatch):
    """`neuro-cli` on PyPI is another product, with a command `neuro` of its own."""
    assert install("mpi", "rl") == "pip install '.[mpi,rl]'"
    monkeypatch.setattr(installing, "PUBLISHED", True)
    assert install("mpi") == "pip install 'neuro-es[mpi]'"
    assert install() == "pip install neuro-es"
