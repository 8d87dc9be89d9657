"""The options of docs/how_to/extending.md, from the page's text: they train, and pass the tests of all options."""

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest
from doc_commands import ROOT, commands_of
from support.worlds import clean_environment, needs_mpi
from test_commands import of_the_page

PAGE = (ROOT / "docs" / "how_to" / "extending.md").read_text()
FILES = dict(re.findall(r"^`((?:neuro_cli|conf)/\S+)`:\n\n```(?:python|yaml)\n(.*?)^```$", PAGE, re.MULTILINE | re.DOTALL))
SMALL = ("population=8", "batch_size=16", "generations=3", "threads=1", "evaluate.every=3")


def linked(source: Path, target: Path, changed: set[Path]) -> None:
    """Make ``target`` as ``source`` by links, but for folders with something ``changed``, so that compiled kernels are shared."""
    target.mkdir()
    for entry in source.iterdir():
        if any(path.is_relative_to(entry) for path in changed):
            linked(entry, target / entry.name, changed)
        elif entry.name not in ("__pycache__", "outputs", ".git"):
            (target / entry.name).symlink_to(entry, entry.is_dir())


@pytest.fixture(scope="module")
def checkout(tmp_path_factory):
    """This checkout with the files of the page in it."""
    folder = tmp_path_factory.mktemp("checkout") / "neuro"
    linked(ROOT, folder, {ROOT / file for file in FILES})
    for name, content in FILES.items():
        (folder / name).write_text(content)
    return folder


def run(checkout: Path, *words: str, cwd: Path) -> subprocess.CompletedProcess[str]:
    path = f"{Path(sys.executable).parent}:{os.environ['PATH']}"
    environment = clean_environment() | {"PYTHONPATH": str(checkout), "PATH": path}
    done = subprocess.run([sys.executable, *words], cwd=cwd, env=environment, capture_output=True, text=True, timeout=900)
    assert done.returncode == 0, done.stderr or done.stdout[-3000:]
    return done


def test_an_option_is_two_files():
    options = {(name.split("/")[1], Path(name).stem) for name in FILES}
    assert {group for group, _ in options} == {"sampler", "algo", "task", "logger"}
    assert len(FILES) == 2 * len(options)
    assert not any((ROOT / name).exists() for name in FILES)


def test_the_page_s_options_train_together(checkout, tmp_path):
    options = ("task=bars", "sampler=uniform", "algo=cem", "logger=jsonl")
    run(checkout, "-m", "neuro_cli", "train", *options, *SMALL, "hydra.run.dir=run", cwd=tmp_path)
    assert (tmp_path / "run" / "metrics.csv").read_text().count("\n") == 4
    assert (tmp_path / "run" / "rows.jsonl").read_text().count("\n") == 3


@pytest.mark.slow
@needs_mpi
def test_the_commands_of_the_page_run(checkout, tmp_path):
    lines = [command.words[1:] for command in commands_of("extending.md", PAGE) if of_the_page(command)]
    assert len(lines) > 8
    for number, words in enumerate(lines):
        kind = "sweep" if "-m" in words else "run"
        run(checkout, "-m", "neuro_cli", *words, *SMALL, f"hydra.{kind}.dir={number}", cwd=tmp_path)


@pytest.mark.slow
def test_the_options_pass_the_tests_of_all_options(checkout):
    files = ("tests/conf/test_options.py", "tests/sampler/test_samplers.py", "tests/contracts/test_option_contracts.py")
    names = " or ".join(sorted({Path(name).stem for name in FILES}))
    done = run(checkout, "-m", "pytest", *files, "-k", names, "-p", "no:cacheprovider", cwd=checkout)
    assert int(re.search(r"(\d+) passed", done.stdout)[1]) > 20  # type: ignore[index]
