"""docs/tutorial/library.ipynb: kept without outputs; slow: it runs in a kernel of its own, and prints no path of this machine."""

import ast
import json
import re
from pathlib import Path
from typing import Any

import pytest
from doc_commands import ROOT
from support.worlds import clean_environment

NOTEBOOK = ROOT / "docs" / "tutorial" / "library.ipynb"


def cells(kind: str) -> list[dict[str, Any]]:
    return [cell for cell in json.loads(NOTEBOOK.read_text())["cells"] if cell["cell_type"] == kind]


def test_the_notebook_is_kept_without_outputs():
    for cell in cells("code"):
        assert cell["outputs"] == []
        assert cell["execution_count"] is None
        ast.parse("".join(cell["source"]))
    assert str(Path.home()) not in NOTEBOOK.read_text()
    links = re.findall(r"\]\(([^)#]+)\)", "".join("".join(cell["source"]) for cell in cells("markdown")))
    generated = NOTEBOOK.parents[1] / "reference" / "api.md"
    places = [(NOTEBOOK.parent / link).resolve() for link in links]
    assert [place for place in places if not place.is_file() and place != generated] == []


@pytest.mark.slow  # half a minute
def test_the_notebook_runs_and_shows_what_it_says(tmp_path, monkeypatch):
    """Over sockets in a folder, not over TCP."""
    nbclient, nbformat = pytest.importorskip("nbclient"), pytest.importorskip("nbformat")
    pytest.importorskip("ipykernel")
    manager = pytest.importorskip("jupyter_client.manager")
    monkeypatch.chdir(tmp_path)
    environment = clean_environment() | {"PYTHONPATH": str(ROOT), "IPYTHONDIR": str(tmp_path / "ipython")}
    notebook = nbformat.read(NOTEBOOK, as_version=4)
    kernel = manager.AsyncKernelManager(kernel_name="python3", transport="ipc")
    nbclient.NotebookClient(notebook, km=kernel, timeout=500).execute(cwd=str(tmp_path), env=environment)
    outputs = [output for cell in notebook.cells for output in cell.get("outputs", [])]
    data = [output["data"] for output in outputs if "data" in output]
    assert len(data) == len(outputs), "a cell wrote to stdout or stderr"
    texts = " ".join(str(piece.get("text/plain")) for piece in data)
    assert "resumed at generation 40; the same bits at generation 80: True" in texts
    assert float(re.findall(r"accuracy ([\d.]+)", texts)[-1]) > 0.85
    assert float(re.findall(r"cosine with the gradient: ([\d.]+)", texts)[0]) > 0.3
    assert [piece for piece in data if "image/png" in piece]
    assert not re.search(r"(?<![\w)])/\w+/", texts)
    assert [path.name for path in tmp_path.iterdir() if path.is_file()] == []
