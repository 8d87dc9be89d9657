"""Docstrings of the public names say what the reference needs; slow: the site is built without a warning, and fits screens."""

import importlib
import inspect
import re
import subprocess
import sys
from typing import Any

import pytest
from doc_commands import PAGES, ROOT
from report.chromium import Chromium, needs_chromium
from support.inside import well
from support.worlds import clean_environment

sys.path.insert(0, str(ROOT / "scripts"))
import reference_pages

NAMES = [f"{package}.{name}" for package, names in reference_pages.public().items() for name in names if name != "__version__"]


def thing(name: str) -> Any:
    package, _, attribute = name.rpartition(".")
    return getattr(importlib.import_module(package), attribute)


def wrong(name: str) -> list[str]:
    """What a public name's docstring lacks."""
    each = thing(name)
    own = (vars(each).get("__doc__") if inspect.isclass(each) else each.__doc__) or ""
    texts = " ".join(vars(parent).get("__doc__") or "" for parent in getattr(each, "__mro__", [])) or own
    takes_text_only = isinstance(each, type) and issubclass(each, Exception) and "__init__" not in vars(each)
    parameters = () if takes_text_only else inspect.signature(each).parameters
    silent = [f"argument {key}" for key in parameters if key != "params" and f"``{key}``" not in texts]  # params: torch's own
    short = ["a docstring of its own"] if len(own.split()) < 5 or own.startswith(f"{name.rpartition('.')[2]}(") else []
    return silent + short + stars(each)


def stars(each: Any) -> list[str]:
    """Docstrings with a star that begins an emphasis, such as ``(D, *shape)`` without backticks: the strict build ends there."""
    members = vars(each).values() if inspect.isclass(each) else ()
    texts = [str(part.__doc__) for part in (each, *members) if part.__doc__]
    outside = [re.sub(r"``.*?``|::\n.*", "", text, flags=re.DOTALL) for text in texts]
    return [text for text in outside if re.search(r"(?<![\w`*\\])\*\w", text)]


def test_docstrings_of_public_names_name_their_arguments():
    assert len(NAMES) > 30
    assert {name: lacks for name in NAMES if (lacks := wrong(name))} == {}


@pytest.fixture(scope="module")
def site(tmp_path_factory):
    """The folder of the site, built by the command of the Makefile."""
    for package in ("sphinx", "myst_nb", "furo", "sphinx_copybutton"):
        pytest.importorskip(package)
    folder = tmp_path_factory.mktemp("docs")
    line = re.search(r"^\t\$\(BIN\)/python (-m sphinx .*)-d build/doctrees \. build/docs$", (ROOT / "Makefile").read_text(), re.M)
    assert line
    words = [*line[1].split(), "-d", str(folder / "trees"), ".", str(folder / "site")]
    environment = clean_environment() | {"PYTHONPATH": str(ROOT)}
    well(subprocess.run([sys.executable, *words], cwd=ROOT, env=environment, capture_output=True, text=True, timeout=900))
    return folder / "site"


@pytest.mark.slow  # a minute
def test_the_site_is_built_without_a_warning(site):
    """Links between pages, to files and in docstrings, and every page in the navigation."""
    assert "README.html" in (site / "index.html").read_text()
    assert "how_to/clusters.html" in (site / "docs" / "cluster.html").read_text()  # an old name
    assert [page for page in PAGES if not (site / page.relative_to(ROOT).with_suffix(".html")).is_file()] == []
    reference = (site / "docs" / "reference" / "api.html").read_text()
    assert [name for name in NAMES if name.rpartition(".")[2] not in reference] == []
    assert [page.name for page in site.rglob("*.html") if str(ROOT) in page.read_text()] == []


# text that reaches out of the column: only wide tables, code and figures may, in boxes of their own that scroll
LOST = """
const width = document.documentElement.clientWidth;
const box = (each) => getComputedStyle(each).overflowX !== 'visible';
const scrolls = (each) => !each.matches('.content') && (box(each) || scrolls(each.parentElement));
const lost = (each) => each.getBoundingClientRect().right > width + 1 && !scrolls(each.parentElement);
const texts = [...document.querySelectorAll('article :is(p, li, td, code, h1, h2, h3)')].filter(lost);
return texts.map((each) => each.textContent.slice(0, 60));
"""


@pytest.mark.slow
@needs_chromium
def test_no_page_is_wider_than_a_screen(site, tmp_path):
    browser = Chromium(tmp_path)
    try:
        wide = []
        pages = [site / page.relative_to(ROOT).with_suffix(".html") for page in PAGES]
        for size in ((1280, 900), (390, 844)):
            browser.evaluate(size, dark=False)
            for page in [*pages, site / "docs" / "reference" / "configuration.html"]:
                browser.driver.get(page.as_uri())
                wide += [(page.name, size, text) for text in browser.run(LOST)]
        assert wide == []
    finally:
        browser.close()
