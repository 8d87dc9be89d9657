"""The reference (docs/api.md) has every public name, each with a docstring that names its arguments; slow: the site is built."""

import importlib
import inspect
import re
import subprocess
import sys
from functools import cache
from typing import Any

import pytest
from doc_commands import PAGES, ROOT
from support.worlds import clean_environment

import neuro_cli

PAGE = (ROOT / "docs" / "api.md").read_text()
DIRECTIVE = re.compile(r"^\.\. auto(\w+):: (\S+)$", re.MULTILINE)
DOCUMENTED = [name for kind, name in DIRECTIVE.findall(PAGE) if kind != "module"]
SUBPACKAGES = [f"neuro_cli.{name}" for name in neuro_cli.__all__ if inspect.ismodule(getattr(neuro_cli, name))]
PACKAGES = ("neuro_cli", *SUBPACKAGES)
PUBLIC = [f"{package}.{name}" for package in PACKAGES for name in importlib.import_module(package).__all__]
PARTS = [name for name in PUBLIC if name not in SUBPACKAGES and name != "neuro_cli.__version__"]


@cache
def found(name: str) -> Any:
    """The object of a dotted name: what follows its module is an attribute."""
    package, _, attribute = name.rpartition(".")
    return getattr(importlib.import_module(package), attribute)


def test_every_public_name_is_in_the_reference_once():
    assert len(SUBPACKAGES) > 2
    assert sorted(set(PUBLIC) - set(DOCUMENTED) - set(SUBPACKAGES)) == []
    assert [name for name in SUBPACKAGES if f"\n## {name}\n" not in PAGE] == []
    assert len(DOCUMENTED) == len(set(DOCUMENTED))


@pytest.mark.parametrize("name", DOCUMENTED)
def test_what_the_reference_names_is_there_and_has_a_docstring_of_its_own(name):
    thing = found(name)
    if name == "neuro_cli.__version__":
        assert re.search(r"autodata:: neuro_cli.__version__\n(   :.*\n)*\n   \w", PAGE)  # a text has none: the page has it
        return
    own = vars(thing).get("__doc__") if inspect.isclass(thing) else thing.__doc__
    assert own
    assert len(own.split()) > 4
    if inspect.isclass(thing):
        assert not own.startswith(f"{thing.__name__}(")  # what a dataclass writes by itself


@pytest.mark.parametrize("name", [name for name in DOCUMENTED if name != "neuro_cli.__version__"])
def test_a_docstring_has_no_star_that_begins_an_emphasis(name):
    """The strict build of the site ends at ``(D, *shape)`` without backticks around it; slow tests alone build it."""
    thing = found(name)
    members = vars(thing).values() if inspect.isclass(thing) else ()
    for text in (str(each.__doc__) for each in (thing, *members) if each.__doc__):
        outside = re.sub(r"``.*?``|::\n.*", "", text, flags=re.DOTALL)
        assert not re.search(r"(?<![\w`*\\])\*\w", outside), text


@pytest.mark.parametrize("name", PARTS)
def test_a_part_s_docstring_names_its_arguments(name):
    """Of a class or one that it derives from: an argument without a word is one that a reader must guess."""
    thing = found(name)
    texts = " ".join(vars(parent).get("__doc__") or "" for parent in getattr(thing, "__mro__", [])) or str(thing.__doc__)
    takes_text_only = isinstance(thing, type) and issubclass(thing, Exception) and "__init__" not in vars(thing)
    parameters = () if takes_text_only else inspect.signature(thing).parameters
    arguments = [key for key in parameters if key != "params"]  # torch's own
    assert [key for key in arguments if f"``{key}``" not in texts] == []


@pytest.mark.parametrize("name", [name for name in DOCUMENTED if inspect.isclass(found(name))])
def test_public_methods_of_the_reference_have_docstrings(name):
    """Where the page lists members: those without a text would be left out in silence."""
    if not re.search(rf"autoclass:: {re.escape(name)}\n   :members:\n", PAGE):
        return
    methods = {key: value for key, value in vars(found(name)).items() if not key.startswith("_") and callable(value)}
    assert [key for key, value in methods.items() if not inspect.getdoc(value)] == []


@pytest.mark.slow  # half a minute
def test_the_site_is_built_without_a_warning(tmp_path):
    """By the command of the Makefile: links between pages, to files and in docstrings, and every page in the navigation."""
    pytest.importorskip("sphinx")
    pytest.importorskip("myst_parser")
    line = re.search(r"^\t\$\(BIN\)/python (-m sphinx .*)-d build/doctrees \. build/docs$", (ROOT / "Makefile").read_text(), re.M)
    assert line
    words = [*line[1].split(), "-d", str(tmp_path / "trees"), ".", str(tmp_path / "site")]
    environment = clean_environment() | {"PYTHONPATH": str(ROOT)}
    done = subprocess.run([sys.executable, *words], cwd=ROOT, env=environment, capture_output=True, text=True, timeout=500)
    assert done.returncode == 0, done.stderr
    site = tmp_path / "site"
    assert "README.html" in (site / "index.html").read_text()
    made = {page.relative_to(ROOT).with_suffix(".html") for page in PAGES}
    assert [page for page in sorted(made) if not (site / page).is_file()] == []
    reference = (site / "docs" / "api.html").read_text()
    assert [name for name in DOCUMENTED if f'id="{name}"' not in reference] == []
    assert [page.name for page in site.rglob("*.html") if str(ROOT) in page.read_text()] == []


@pytest.mark.slow
def test_a_wrong_link_fails_the_build(tmp_path):
    """On two pages of their own with the settings of the site."""
    pytest.importorskip("sphinx")
    pytest.importorskip("myst_parser")
    source = tmp_path / "source"
    (source / "docs").mkdir(parents=True)
    settings = (ROOT / "docs" / "conf.py").read_text()
    (source / "docs" / "conf.py").write_text(re.sub(r"NAVIGATION = \{.*?^\}", "NAVIGATION = {}", settings, flags=re.S | re.M))
    environment = clean_environment() | {"PYTHONPATH": str(ROOT)}
    command = [sys.executable, *["-m", "sphinx", "-W", "-q", "-E", "-c", "docs", "-d", "../trees", ".", "../site"]]
    for link, code in (("README.md", 0), ("docs/nowhere.md", 1)):
        (source / "README.md").write_text(f"# Title\n\n[text]({link})\n")
        done = subprocess.run(command, cwd=source, env=environment, capture_output=True, text=True, timeout=300)
        assert done.returncode == code, done.stderr
    assert "nowhere" in done.stderr
