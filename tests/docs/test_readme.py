"""The README: one screen, with what a newcomer sees at first; its figures and its transcript are true."""

import re

import pytest
from doc_commands import ROOT, section_of
from support.inside import neuro_inside

TEXT = (ROOT / "README.md").read_text()
RUN = section_of(TEXT, "The first run")


def shown() -> list[str]:
    """Lines of the transcript."""
    (block,) = re.findall(r"^```text\n(.*?)^```$", RUN, re.DOTALL | re.MULTILINE)
    return block.splitlines()


def form(line: str) -> str:
    """A line of output without its numbers."""
    return re.sub(r"[-\d.,:_]+", "#", line)


def test_it_is_one_screen():
    assert 300 < len(TEXT.split()) <= 650
    assert len(TEXT.splitlines()) <= 80
    assert max(map(len, shown())) <= 110


def test_its_parts():
    assert re.findall(r"^## (.+)$", TEXT, re.MULTILINE) == ["Two commands", "The first run", "What to read next", "Citing"]
    assert len(re.findall(r"^!\[", TEXT, re.MULTILINE)) == 1


def test_its_figures_of_the_figure_are_those_of_its_record():
    said = re.findall(r"([\d.]+) times", TEXT.split("\n## ")[0])
    record = (ROOT / "docs" / "results" / "full" / "nes_table_1.md").read_text()
    assert len(said) == 2
    for value, method in zip(said, ("Sign flip", "IID"), strict=True):
        assert re.search(rf"^\| 512, 512, {method} \|.*\| {re.escape(value)} \(", record, re.MULTILINE)


def test_its_loop_is_that_of_the_script():
    (loop,) = re.findall(r"^```python\n(.*?)^```$", RUN, re.DOTALL | re.MULTILINE)
    assert len(loop.splitlines()) == 4
    assert loop in (ROOT / "docs" / "examples" / "digits.py").read_text()


def test_the_transcript_has_the_form_of_a_run(tmp_path):
    """A shorter run by the same network: the lines are the same but for their numbers."""
    small = ("generations=2", "population=8", "batch_size=16", "threads=2", "evaluate.every=2", "device=cpu")
    done = neuro_inside("train", *small, cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    printed = (done.stdout + done.stderr).splitlines()
    assert sorted({form(line) for line in printed}) == sorted({form(line) for line in shown()} - {form("...")})
    assert re.search(r"on Digits; 11,274 parameters; OpenAIES, local, ", shown()[0])
    assert shown()[0].split("population")[0] == next(line for line in printed if " on " in line).split("population")[0]


@pytest.mark.slow
def test_the_transcript_ends_at_what_the_run_reaches(tmp_path):
    done = neuro_inside("train", "device=cpu", cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    said, found = (
        float(re.findall(r"test accuracy ([\d.]+)", text)[-1]) for text in ("\n".join(shown()), done.stdout + done.stderr)
    )
    assert found == pytest.approx(said, abs=0.02)  # whole passes differ in their last bits from one kind of processor to another
