"""The first steps: the README's transcript is that of a run, and every command of the tutorial runs in the page's order."""

import json
import re

import pytest
from doc_commands import ROOT, commands_of, section_of
from support.inside import neuro_in_one_world, neuro_inside, well
from support.worlds import needs_mpi

TUTORIAL = (ROOT / "docs" / "tutorial" / "getting_started.md").read_text()
pytestmark = pytest.mark.xdist_group("ranks")

SIZES = ("generations=3", "population=8", "batch_size=16", "threads=1", "evaluate.every=3")
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
    done = well(neuro_inside("train", *small, cwd=tmp_path))
    printed = (done.stdout + done.stderr).splitlines()
    assert sorted({form(line) for line in printed}) == sorted({form(line) for line in shown()} - {form("...")})
    assert shown()[0].split("population")[0] == next(line for line in printed if " on " in line).split("population")[0]


@pytest.mark.slow
def test_the_transcript_ends_at_what_the_run_reaches(tmp_path):
    done = well(neuro_inside("train", "device=cpu", cwd=tmp_path))
    said, reached = (
        float(re.findall(r"test accuracy ([\d.]+)", text)[-1]) for text in ("\n".join(shown()), done.stdout + done.stderr)
    )
    assert reached == pytest.approx(said, abs=0.02)  # products differ in their last bits from one kind of processor to another


def small(words: tuple[str, ...]) -> list[str]:
    """A command of neuro with sizes of its own."""
    if words[1] != "train" or "--help" in words:
        return list(words[1:])
    kept = [word for word in words[1:] if not word.startswith(("generations=", "population="))]
    return [*kept, *SIZES]


@needs_mpi
def test_the_commands_of_the_tutorial_run_in_their_order(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(tmp_path)
    (tmp_path / "my_package.py").write_text(re.search(r"^```python\n(import torch\n.*?)^```$", TUTORIAL, re.M | re.S)[1])  # type: ignore[index]
    commands = [command.words for command in commands_of("getting_started.md", TUTORIAL) if command.words[0] == "neuro"]
    assert len(commands) > 12
    for words in commands:
        if "ranks=2" in words:  # by ranks that have started
            (done,) = neuro_in_one_world([word for word in small(words) if word != "ranks=2"], cwd=tmp_path, ranks=2)
        else:
            done = neuro_inside(*small(words), cwd=tmp_path)
        assert done.returncode == 0, f"{' '.join(words)}\n{done.stderr}"
    folders = (tmp_path / "outputs" / name for name in ("first", "two"))
    first, two = (json.loads((folder / "summary.json").read_text())["parameters_sha256"] for folder in folders)
    assert first == two


@pytest.mark.slow
def test_the_snippets_of_the_tutorial_run(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    for block in re.findall(r"^```python\n(import (?:neuro_cli|torch\nfrom torch.nn.f).*?)^```$", TUTORIAL, re.M | re.S):
        exec(compile(block.replace("generations=100", "generations=2"), "getting_started.md", "exec"), {})
    assert (tmp_path / "outputs" / "script" / "summary.json").exists()
