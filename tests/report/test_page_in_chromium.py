"""The page of ``neuro report`` in a real browser: drawn on every kind of screen, without a request or an error."""

from collections.abc import Iterator
from pathlib import Path

import pytest
from chromium import DESKTOP, PHONE, Chromium, needs_chromium
from made_runs import made_run, made_search, made_study

from neuro_cli.report.table import read_jobs

pytestmark = [needs_chromium, pytest.mark.waits]

HOSTILE = "<img src=x onerror=window.broken=1>"

LOOK = (
    """return [...document.querySelectorAll("img")].map((image) => [image.getBoundingClientRect().width, image.naturalWidth])"""
)


@pytest.fixture(scope="module")
def page(tmp_path_factory) -> Path:
    """Runs with seeds and with a hostile name, a search and a study."""
    from neuro_cli.report.page import write_page

    folder = tmp_path_factory.mktemp("browsed")
    for seed in (1, 2):
        made_run(folder / "runs" / f"a{seed}", 60, whole=60, algo="openai_es", seed=seed)
    made_run(folder / "runs" / HOSTILE, 60, whole=60, algo=HOSTILE, seed=1)
    made_search(folder / "runs" / "search")
    made_study(folder / "study")
    write_page([*read_jobs(folder / "runs"), *read_jobs(folder / "study")], folder / "report.html", HOSTILE)
    return folder / "report.html"


@pytest.fixture(scope="module")
def browser(tmp_path_factory) -> Iterator[Chromium]:
    chromium = Chromium(tmp_path_factory.mktemp("chromium"))
    yield chromium
    chromium.close()


WIDE = """return [...document.querySelectorAll(".scrolled")].filter((box) => box.scrollWidth > box.clientWidth)
  .map((box) => getComputedStyle(box).backgroundAttachment)"""


@pytest.mark.parametrize(("size", "dark"), [(DESKTOP, False), (PHONE, True)], ids=["desktop", "phone"])
def test_figures_are_drawn_and_nothing_is_asked_for(browser, page, size, dark, tmp_path):
    browser.evaluate(size, dark)
    browser.open(page)
    check(browser, size, dark, tmp_path / "page.png")
    browser.evaluate(size, not dark)  # the reader changes the preference while the page is open
    browser.settle()
    check(browser, size, not dark, tmp_path / "other.png")
    assert browser.errors() == []
    assert browser.requests() == {page.as_uri()}
    assert browser.run("return window.broken") is None


def check(browser, size, dark, picture):
    seen = browser.run(LOOK)
    assert len(seen) == 10 + 1  # figures, and the picture of a study
    assert [look for look in seen if not look[1] or not 200 < look[0] < size[0]] == []
    assert browser.run("return document.documentElement.scrollWidth") == size[0]
    ground = browser.run("return getComputedStyle(document.body).backgroundColor")
    assert ground == ("rgb(20, 23, 28)" if dark else "rgb(255, 255, 255)")
    hints = browser.run(WIDE)
    assert hints or size == DESKTOP
    assert set(hints) <= {"local, local, scroll, scroll"}  # shadows at the sides, which the ends of a table cover
    browser.picture(picture)
    assert picture.stat().st_size > 20_000
