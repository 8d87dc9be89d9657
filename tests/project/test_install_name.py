"""Extras and the name of the distribution: `neuro-cli` on PyPI is another product, with a command `neuro` of its own."""

import re
import tomllib
from pathlib import Path

from neuro_cli.core.messages import install as installing
from neuro_cli.core.messages.install import DISTRIBUTION, install

ROOT = Path(__file__).parents[2]
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
EXTRAS = PROJECT["optional-dependencies"]


def test_every_extra_that_is_named_is_one_of_the_project():
    sources = "".join(path.read_text() for path in (ROOT / "neuro_cli").rglob("*.py"))
    needs = [need for needs in EXTRAS.values() for need in needs if need.startswith("neuro")]
    named = set(re.findall(r"""\binstall\(["'](\w+)["']\)""", sources))
    named |= {extra for need in needs for extra in re.fullmatch(rf"{DISTRIBUTION}\[(.+)\]", need)[1].split(",")}  # type: ignore[index]
    assert {"mpi", "rl", "search", "slurm", "evolve", "tensorboard"} <= named <= EXTRAS.keys()


def test_a_command_names_the_clone_until_the_distribution_is_published(monkeypatch):
    assert install("mpi", "rl") == "pip install '.[mpi,rl]'"
    monkeypatch.setattr(installing, "PUBLISHED", True)
    assert install("mpi") == "pip install 'neuro-es[mpi]'"
    assert install() == "pip install neuro-es"
