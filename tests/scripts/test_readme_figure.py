"""``scripts/readme_figure.py``: the README's figure shows the record's numbers."""

import csv
import re

from support.inside import script_inside
from test_kept_results import ROOT

SCRIPT = ROOT / "scripts" / "readme_figure.py"


def texts(svg: str) -> list[str]:
    return re.findall(r"<text[^>]*>([^<]+)</text>", svg)


def test_the_figure_has_the_numbers_of_the_record(tmp_path):
    drawn = script_inside(SCRIPT, str(tmp_path / "figure.svg"), cwd=tmp_path)
    assert drawn.returncode == 0, drawn.stderr
    kept = (ROOT / "docs" / "noise_reuse.svg").read_text()
    assert texts((tmp_path / "figure.svg").read_text()) == texts(kept)
    with (ROOT / "docs" / "results" / "full" / "nes_table_1.csv").open() as file:
        rows = {row["row"]: float(row["measured"]) for row in csv.DictReader(file)}
    shown = [text.removesuffix("x") for text in texts(kept) if text.endswith("x")]
    assert len(shown) == 5
    for name, value in (("IID", shown[0]), ("Antithetic", shown[1]), ("Permutation", shown[2]), ("Sign flip", shown[3])):
        assert f"{rows[f'512, 512, {name}']:.4g}" == value
    assert len(kept) < 50_000
