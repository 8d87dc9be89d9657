"""The name under which neuro is installed: `neuro-cli` on PyPI is another product, with a command `neuro` of its own."""

import re
import subprocess
import tomllib
from pathlib import Path

import pytest

from neuro_cli.core import install as installing
from neuro_cli.core.install import DISTRIBUTION, install

ROOT = Path(__file__).parents[2]
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
TEXTS = {".py", ".md", ".yaml", ".yml", ".toml", ".sh", ".ipynb", ".cff", ".js", ".def", ""}
HISTORY = {"CHANGELOG.md", Path(__file__).name}


def texts() -> list[Path]:
    listed = subprocess.run(["git", "ls-files", "-z"], cwd=ROOT, capture_output=True, text=True)
    if listed.returncode:
        pytest.skip("not a checkout")
    files = [ROOT / name for name in listed.stdout.split("\0") if name]
    return [file for file in files if file.is_file() and file.suffix in TEXTS and file.name not in HISTORY]


def test_no_text_tells_people_to_install_the_other_product():
    found = [str(file.relative_to(ROOT)) for file in texts() if re.search(r"\bneuro-cli\b", file.read_text())]
    assert found == []


def test_the_project_and_its_extras_of_extras_have_the_one_name():
    assert PROJECT["name"] == DISTRIBUTION
    own = [need for needs in PROJECT["optional-dependencies"].values() for need in needs if need.startswith("neuro")]
    assert own
    assert all(need.startswith(f"{DISTRIBUTION}[") for need in own)
    named = {extra for need in own for extra in re.search(r"\[(.+)\]", need)[1].split(",")}
    assert named <= set(PROJECT["optional-dependencies"])


def test_every_extra_that_a_message_names_is_one_of_the_project():
    sources = "".join(path.read_text() for path in (ROOT / "neuro_cli").rglob("*.py"))
    named = set(re.findall(r"""\binstall\(["'](\w+)["']\)""", sources))
    assert {"mpi", "rl", "search", "slurm", "evolve", "report", "tensorboard"} <= named
    assert named <= set(PROJECT["optional-dependencies"])


def test_the_table_of_extras_has_all_of_them():
    page = (ROOT / "docs" / "command_line.md").read_text()
    rows = re.findall(r"^\| (`[^|]+`) \|", page.partition("| extra |")[2].partition("\n\n")[0], re.MULTILINE)
    assert sorted(name for row in rows for name in re.findall(r"`(\w+)`", row)) == sorted(PROJECT["optional-dependencies"])
    left = re.search(r"all of the above but (.+) \|", page)
    (whole,) = PROJECT["optional-dependencies"]["all"]
    in_all = set(re.search(r"\[(.+)\]", whole)[1].split(","))
    assert set(re.findall(r"`(\w+)`", left[1])) == set(PROJECT["optional-dependencies"]) - in_all - {"all", "docs", "dev"}


def test_a_command_names_the_clone_until_the_distribution_is_published(monkeypatch):
    assert install("mpi", "rl") == "pip install '.[mpi,rl]'"
    assert install() == "pip install ."
    monkeypatch.setattr(installing, "PUBLISHED", True)
    assert install("mpi") == "pip install 'neuro-es[mpi]'"
    assert install() == "pip install neuro-es"
