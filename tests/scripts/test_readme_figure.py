"""``scripts/readme_figure.py`` draws the README's figure from its record."""

import re

from support.inside import script_inside, well
from support.tables import rows_of
from test_kept_results import ROOT

SCRIPT = ROOT / "scripts" / "readme_figure.py"


def texts(svg: str) -> list[str]:
    return re.findall(r"<text[^>]*>([^<]+)</text>", svg)


def test_the_figure_is_drawn_from_the_record_and_names_its_curves(tmp_path):
    well(script_inside(SCRIPT, str(tmp_path / "figure.svg"), cwd=tmp_path))
    kept = (ROOT / "docs" / "images" / "accuracy.svg").read_text()
    assert texts((tmp_path / "figure.svg").read_text()) == texts(kept)
    rows = rows_of(ROOT / "docs" / "results" / "accuracy.csv")
    assert {row["curve"] for row in rows} <= set(texts(kept))
    assert all(row["command"] and row["machine"] and row["date"] for row in rows)
    assert len(kept) < 50_000
