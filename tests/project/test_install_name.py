"""Extras and the name of the distribution: `neuro-cli` on PyPI is another product, with a command `neuro` of its own."""

import re
import subprocess
import tomllib
from pathlib import Path

import pytest

from neuro_cli.core import install as installing
from neuro_cli.core.install import DISTRIBUTION, install

ROOT = Path(__file__).parents[2]
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
EXTRAS = PROJECT["optional-dependencies"]


def test_no_text_tells_people_to_install_the_other_product():
    listed = subprocess.run(["git", "grep", "-lw", "neuro-cli"], cwd=ROOT, capture_output=True, text=True)
    if listed.returncode not in (0, 1):
        pytest.skip("not a checkout")
    assert set(listed.stdout.split()) <= {"CHANGELOG.md", str(Path(__file__).relative_to(ROOT))}
    assert PROJECT["name"] == DISTRIBUTION


def test_every_extra_that_is_named_is_one_of_the_project():
    sources = "".join(path.read_text() for path in (ROOT / "neuro_cli").rglob("*.py"))
    needs = [need for needs in EXTRAS.values() for need in needs if need.startswith("neuro")]
    named = set(re.findall(r"""\binstall\(["'](\w+)["']\)""", sources))
    named |= {extra for need in needs for extra in re.fullmatch(rf"{DISTRIBUTION}\[(.+)\]", need)[1].split(",")}  # type: ignore[index]
    assert {"mpi", "rl", "search", "slurm", "evolve", "report", "tensorboard"} <= named <= EXTRAS.keys()


def test_the_table_of_extras_has_all_of_them():
    page = (ROOT / "docs" / "how_to" / "installation.md").read_text()
    rows = re.findall(r"^\| (`[^|]+`) \|", page.partition("| extra |")[2].partition("\n\n")[0], re.MULTILINE)
    assert sorted(name for row in rows for name in re.findall(r"`(\w+)`", row)) == sorted(EXTRAS)
    left = re.search(r"all of the above but (.+) \|", page)
    whole = re.search(r"\[(.+)\]", EXTRAS["all"][0])
    assert set(re.findall(r"`(\w+)`", left[1])) == EXTRAS.keys() - set(whole[1].split(",")) - {"all", "docs", "dev"}  # type: ignore[index]


def test_a_command_names_the_clone_until_the_distribution_is_published(monkeypatch):
    assert install("mpi", "rl") == "pip install '.[mpi,rl]'"
    monkeypatch.setattr(installing, "PUBLISHED", True)
    assert install("mpi") == "pip install 'neuro-es[mpi]'"
    assert install() == "pip install neuro-es"
