"""Every command of the tutorial runs, in the page's order, on the page's own module, at a small size."""

import json
import re

import pytest
from doc_commands import ROOT, commands_of
from inside import neuro_inside
from worlds import needs_mpi, neuro

PAGE = (ROOT / "docs" / "tutorial" / "getting_started.md").read_text()
SIZES = ("generations=3", "population=8", "batch_size=16", "threads=1", "evaluate.every=3")


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
    (tmp_path / "my_package.py").write_text(re.search(r"^```python\n(import torch\n.*?)^```$", PAGE, re.M | re.S)[1])  # type: ignore[index]
    commands = [command.words for command in commands_of("getting_started.md", PAGE) if command.words[0] == "neuro"]
    assert len(commands) > 12
    for words in commands:
        start = neuro if "ranks=2" in words else neuro_inside
        done = start(*small(words), cwd=tmp_path)
        assert done.returncode == 0, f"{' '.join(words)}\n{done.stderr}"
    folders = (tmp_path / "outputs" / name for name in ("first", "two"))
    first, two = (json.loads((folder / "summary.json").read_text())["parameters_sha256"] for folder in folders)
    assert first == two


@pytest.mark.slow
def test_the_snippets_of_the_tutorial_run(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    for block in re.findall(r"^```python\n(import (?:neuro_cli|torch\nfrom torch.nn.f).*?)^```$", PAGE, re.M | re.S):
        exec(compile(block.replace("generations=100", "generations=2"), "getting_started.md", "exec"), {})
    assert (tmp_path / "outputs" / "script" / "summary.json").exists()
