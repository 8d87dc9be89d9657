"""The built wheel, installed in an empty environment outside the checkout, is all that ``neuro train`` needs."""

import os
import subprocess
import sys
import sysconfig
import zipfile
from pathlib import Path

import pytest
import yaml
from support.inside import well
from support.worlds import clean_environment

from neuro_cli import __version__

ROOT = Path(__file__).parents[2]
SMALL = ("population=8", "batch_size=16", "generations=2", "threads=1")


def run(*command: str, cwd: Path) -> subprocess.CompletedProcess[str]:
    environment = {name: value for name, value in clean_environment().items() if name != "PYTHONPATH"}
    done = well(subprocess.run(command, cwd=cwd, env=environment, capture_output=True, text=True, timeout=300))
    return done


@pytest.fixture(scope="module")
def wheel(tmp_path_factory) -> Path:
    """The wheel, built by the project's own back end without a network."""
    pytest.importorskip("hatchling")
    folder = tmp_path_factory.mktemp("wheel")
    build = "import sys; from hatchling.build import build_wheel; print(build_wheel(sys.argv[1]))"
    name = run(sys.executable, "-c", build, str(folder), cwd=ROOT).stdout.split()[-1]
    return folder / name


@pytest.fixture(scope="module")
def environment(wheel, tmp_path_factory) -> Path:
    """An empty environment with the wheel; its dependencies are those of this one, which come after it on the path."""
    folder = tmp_path_factory.mktemp("environment")
    run(sys.executable, "-m", "venv", "--without-pip", str(folder), cwd=folder)
    python = folder / "bin" / "python"
    run(sys.executable, "-m", "pip", "--python", str(python), "install", "--no-deps", "--no-index", str(wheel), cwd=folder)
    own = Path(run(str(python), "-c", "import sysconfig; print(sysconfig.get_path('purelib'))", cwd=folder).stdout.strip())
    # a plain path, and not a site folder: the editable installation of this checkout must stay out
    (own / "dependencies.pth").write_text(f"{sysconfig.get_path('purelib')}\n")
    return folder


def test_the_wheel_has_all_that_runs(wheel):
    there = set(zipfile.ZipFile(wheel).namelist())
    configs = {f"neuro_cli/conf/{path.relative_to(ROOT / 'conf')}" for path in (ROOT / "conf").rglob("*.yaml")}
    sources = {
        str(path.relative_to(ROOT)) for path in (ROOT / "neuro_cli").rglob("*") if path.suffix in (".py", ".proto", ".pyi")
    }
    assert (configs | sources) - there == set()
    assert not [name for name in there if name.startswith(("tests/", "scripts/", "docs/"))]
    assert [name for name in there if name.endswith("licenses/LICENSE")]
    assert wheel.name == f"neuro_es-{__version__}-py3-none-any.whl"  # the one place of the version, but for CITATION.cff
    assert yaml.safe_load((ROOT / "CITATION.cff").read_text())["version"] == __version__


@pytest.mark.slow  # compiles the kernels anew
def test_the_installed_wheel_trains_outside_the_checkout(environment, tmp_path):
    neuro = str(environment / "bin" / "neuro")
    where = run(str(environment / "bin" / "python"), "-c", "import neuro_cli; print(neuro_cli.__file__)", cwd=tmp_path).stdout
    assert Path(where.strip()).is_relative_to(environment)
    done = run(neuro, "train", *SMALL, "hydra.run.dir=run", cwd=tmp_path)
    assert "results in run" in done.stdout
    assert (tmp_path / "run" / "metrics.csv").read_text().count("\n") == 3
    assert "test_accuracy" in run(neuro, "evaluate", "run", cwd=tmp_path).stdout + (tmp_path / "run" / "summary.json").read_text()
    assert set(os.listdir(tmp_path)) == {"run"}
