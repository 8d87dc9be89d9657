"""``scripts/results.py``: the tables of README and docs are those of the files that ``neuro reproduce`` left."""

import runpy
import shutil
from pathlib import Path

import pytest
from support.inside import Done, script_inside

ROOT = Path(__file__).parents[2]
SCRIPT = ROOT / "scripts" / "results.py"
RESULTS = runpy.run_path(str(SCRIPT))


@pytest.mark.parametrize("path", RESULTS["pages"](), ids=lambda path: path.name)
def test_tables_are_what_the_files_say(path):
    text = path.read_text()
    assert RESULTS["filled"](text, path) == text


def test_docs_have_tables_and_all_kept_entries_are_in_the_summary():
    marked = [path.name for path in RESULTS["pages"]() if RESULTS["BLOCK"].search(path.read_text())]
    pages = "reproduce noise_reuse darwinn ensembles distributed_evolution architecture_search records"
    assert set(marked) == {f"{name}.md" for name in pages.split()}
    block = RESULTS["block"]("summary", ROOT / "docs" / "results" / "reproduce.md")
    assert block in (ROOT / "docs" / "results" / "reproduce.md").read_text()
    assert len(block.splitlines()) == 2 + len(list((ROOT / "docs" / "results").glob("*/*.csv"))) > 2


def test_what_a_gpu_gave_is_kept_apart_and_never_shown_in_place_of_a_cpus(tmp_path):
    kept = ROOT / "docs" / "results" / "gpu" / "nes_table_2.csv"
    for folder in ("scripts", "docs", "out/nes_table_2"):
        (tmp_path / folder).mkdir(parents=True)
    shutil.copy(SCRIPT, tmp_path / "scripts")
    for suffix in (".csv", ".md", ".svg"):
        shutil.copy(kept.with_suffix(suffix), tmp_path / "out" / "nes_table_2")
    marks = "<!-- results:{} -->\n<!-- /results -->\n"
    (tmp_path / "README.md").write_text(marks.format("summary") + marks.format("speed") + marks.format("gpu"))
    assert script(tmp_path, "out").returncode == 0
    assert (tmp_path / "docs" / "results" / "gpu" / "nes_table_2.csv").read_bytes() == kept.read_bytes()
    summary, speed, gpu = (tmp_path / "README.md").read_text().split("<!-- /results -->")[:3]
    assert "[nes_table_2](docs/results/gpu/nes_table_2.md) | full, GPU | 10 reproduced" in summary
    assert "nes_table_2" not in speed
    assert "[nes_table_2](docs/results/gpu/nes_table_2.md), full, GPU | 3,64,32x32, IID" in gpu


def test_a_folder_is_kept_and_a_stale_table_is_found(tmp_path):
    """On a copy of the repository's pages."""
    kept = sorted((ROOT / "docs" / "results").glob("*/*.csv"))[0]
    entry, size = kept.stem, kept.parent.name
    for folder in ("scripts", "docs", f"out/{entry}"):
        (tmp_path / folder).mkdir(parents=True)
    shutil.copy(SCRIPT, tmp_path / "scripts")
    for suffix in (".csv", ".md", ".svg"):
        shutil.copy(kept.with_suffix(suffix), tmp_path / "out" / entry)
    page = tmp_path / "docs" / "page.md"
    (tmp_path / "README.md").write_text("<!-- results:summary -->\n<!-- /results -->\n")
    page.write_text(f"before\n<!-- results:{entry} -->\nold\n<!-- /results -->\nafter\n")
    assert script(tmp_path, "out").returncode == 0
    assert f"[{entry}](docs/results/{size}/{entry}.md) | {size} | " in (tmp_path / "README.md").read_text()
    text = page.read_text()
    assert "old" not in text
    assert text.startswith("before\n")
    assert text.endswith("<!-- /results -->\nafter\n")
    assert script(tmp_path, "--check").returncode == 0
    page.write_text(text.replace("as expected", "as hoped"))
    refused = script(tmp_path, "--check")
    assert refused.returncode == 1
    assert "docs/page.md: its tables are not what docs/results says" in refused.stderr
    assert "no entry of neuro reproduce there" in script(tmp_path, "docs").stderr


def script(folder: Path, *arguments: str) -> Done:
    return script_inside(folder / "scripts" / "results.py", *arguments, cwd=folder)
