"""The README's transcript is that of a run."""

import re

import pytest
from doc_commands import ROOT, section_of
from inside import neuro_inside

RUN = section_of((ROOT / "README.md").read_text(), "The first run")


def shown() -> list[str]:
    """Lines of the transcript."""
    (block,) = re.findall(r"^```text\n(.*?)^```$", RUN, re.DOTALL | re.MULTILINE)
    return block.splitlines()


def form(line: str) -> str:
    """A line of output without its numbers."""
    return re.sub(r"[-\d.,:_]+", "#", line)


def test_the_transcript_has_the_form_of_a_run(tmp_path):
    """A shorter run by the same network: the lines are the same but for their numbers."""
    small = ("generations=2", "population=8", "batch_size=16", "threads=2", "evaluate.every=2", "device=cpu")
    done = neuro_inside("train", *small, cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    printed = (done.stdout + done.stderr).splitlines()
    assert sorted({form(line) for line in printed}) == sorted({form(line) for line in shown()} - {form("...")})
    assert shown()[0].split("population")[0] == next(line for line in printed if " on " in line).split("population")[0]


@pytest.mark.slow
def test_the_transcript_ends_at_what_the_run_reaches(tmp_path):
    done = neuro_inside("train", "device=cpu", cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    said, reached = (
        float(re.findall(r"test accuracy ([\d.]+)", text)[-1]) for text in ("\n".join(shown()), done.stdout + done.stderr)
    )
    assert reached == pytest.approx(said, abs=0.02)  # products differ in their last bits from one kind of processor to another
