"""The sampler and the tasks of docs/extending.md, from the page's text: they train, and pass the tests of all options."""

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest
from doc_commands import ROOT, commands_of
from support.worlds import clean_environment, needs_mpi
from test_commands import of_the_page

PAGE = (ROOT / "docs" / "extending.md").read_text()
FILE = re.compile(r"^`((?:neuro_cli|conf)/\S+)`:\n\n```(?:python|yaml)\n(.*?)^```$", re.MULTILINE | re.DOTALL)
SMALL = ("population=8", "batch_size=16", "generations=3", "threads=1", "evaluate.every=3")
FILES = dict(FILE.findall(PAGE))


def linked(source: Path, target: Path, changed: set[Path]) -> None:
    """``target`` as ``source`` by links, but for folders with something ``changed``: compiled kernels stay where they are."""
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
    environment = clean_environment() | {
        "PYTHONPATH": str(checkout),
        "PATH": f"{Path(sys.executable).parent}:{os.environ['PATH']}",
    }
    return subprocess.run([sys.executable, *words], cwd=cwd, env=environment, capture_output=True, text=True, timeout=400)


def test_an_option_is_two_files():
    assert sorted(FILES) == [
        "conf/sampler/uniform.yaml", "conf/task/bars.yaml", "conf/task/sines.yaml", "neuro_cli/sampler/uniform.py",
        "neuro_cli/task/bars.py", "neuro_cli/task/sines.py",
    ]  # fmt: skip
    assert not any((ROOT / name).exists() for name in FILES)


def test_the_page_s_sampler_and_task_train_together(checkout, tmp_path):
    done = run(checkout, "-m", "neuro_cli", "train", "task=bars", "sampler=uniform", *SMALL, "hydra.run.dir=run", cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    assert (tmp_path / "run" / "metrics.csv").read_text().count("\n") == 4


@pytest.mark.slow
@needs_mpi
def test_the_commands_of_the_page_run(checkout, tmp_path):
    lines = [command.words[1:] for command in commands_of("extending.md", PAGE) if of_the_page(command)]
    assert len(lines) == 6
    for number, words in enumerate(lines):
        done = run(checkout, "-m", "neuro_cli", *words, *SMALL, f"hydra.run.dir={number}", cwd=tmp_path)
        assert done.returncode == 0, done.stderr


@pytest.mark.slow
def test_the_page_s_task_can_be_learnt(checkout, tmp_path):
    setting = ("task=bars", "generations=100", "hydra.run.dir=run", "algo.optimizer.lr=0.05")
    done = run(checkout, "-m", "neuro_cli", "train", *setting, cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    accuracy = re.findall(r"accuracy ([0-9.]+)", done.stdout)[-1]
    assert float(accuracy) > 0.9


@pytest.mark.slow
def test_the_options_pass_the_tests_of_all_options(checkout):
    files = ("tests/conf/test_options.py", "tests/sampler/test_samplers.py", "tests/contracts/test_option_contracts.py")
    done = run(checkout, "-m", "pytest", *files, "-k", "uniform or bars or sines", "-p", "no:cacheprovider", cwd=checkout)
    assert done.returncode == 0, done.stdout[-3000:]
    passed = int(re.search(r"(\d+) passed", done.stdout)[1])  # type: ignore[index]
    assert passed > 20
