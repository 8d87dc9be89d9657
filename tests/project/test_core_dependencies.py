"""The dependencies of pyproject.toml: the core ones alone carry a plain run, and whatever neuro imports is declared."""

import os
import re
import subprocess
import sys
import tomllib
from importlib.metadata import Distribution, PackageNotFoundError, distribution
from pathlib import Path

import pytest
from packaging.requirements import Requirement
from support.inside import well
from support.worlds import clean_environment

ROOT = Path(__file__).parents[2]
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
CORE = {Requirement(text).name.lower() for text in PROJECT["dependencies"]}
EXTRA = {Requirement(text).name.lower() for texts in PROJECT["optional-dependencies"].values() for text in texts}
# named by the user's card: torchvision and wandb wait for their tasks and their logger, mpi4py for a second rank
CARD = {"hydra-core", "omegaconf", "torch", "torchvision", "mpi4py", "wandb"}
# the distribution of a module that has another name, or of what a declared one brings
DISTRIBUTION_OF = {
    "Box2D": "gymnasium", "IPython": "ipykernel", "PIL": "torchvision", "comet_ml": "comet-ml", "google": "protobuf",
    "grpc": "grpcio", "grpc_health": "grpcio-health-checking", "grpc_reflection": "grpcio-reflection", "hydra": "hydra-core",
    "markupsafe": "jinja2", "stable_baselines3": "stable-baselines3", "triton": "torch", "yaml": "pyyaml",
}  # fmt: skip
IMPORT = re.compile(r"^\s*(?:import|from) (\w+)[\w.]*(?: import .*| as \w+)?(?:  #.*)?$", re.MULTILINE)
AWAY = ("cryptography", "grpc", "gymnasium", "msgpack", "pytest", "submitit", "tensorboard")  # of them, some
SMALL = ("population=8", "batch_size=16", "generations=2", "threads=1", "hydra.run.dir=run")


def imported() -> set[str]:
    """Names of the distributions of which the package imports a module anywhere."""
    files = list((ROOT / "neuro_cli").rglob("*.py"))
    modules = {name for file in files for name in IMPORT.findall(file.read_text())}
    others = modules - sys.stdlib_module_names - {"neuro_cli", "hydra_plugins"}
    return {DISTRIBUTION_OF.get(name, name) for name in others}


def test_whatever_is_imported_is_declared_and_the_core_is_what_is_imported():
    found = imported()
    assert found - CORE - EXTRA == set()
    assert CARD <= CORE
    assert CORE - found == {"scikit-learn"}  # its file of digits is read, by find_spec
    assert 'find_spec("sklearn")' in (ROOT / "neuro_cli" / "task" / "digits.py").read_text()


def needed(need: Requirement, found: dict[str, Distribution]) -> None:
    """Add the distribution of ``need``, and all that it needs here, to ``found``."""
    name = re.sub(r"[-_.]+", "-", need.name).lower()
    if name in found:
        return
    try:
        found[name] = distribution(name)
    except PackageNotFoundError:
        return
    for own in map(Requirement, found[name].requires or ()):
        if own.marker is None or any(own.marker.evaluate({"extra": extra}) for extra in ("", *need.extras)):
            needed(own, found)


@pytest.fixture
def bare(tmp_path: Path) -> Path:
    """Site folder with links to the core dependencies, and to what they need themselves."""
    found: dict[str, Distribution] = {}
    for text in PROJECT["dependencies"]:
        needed(Requirement(text), found)
    site = tmp_path / "site"
    site.mkdir()
    for each in found.values():
        for top in {file.parts[0] for file in each.files or ()} - {"..", "__pycache__"}:
            source = Path(str(each.locate_file(top)))
            if source.exists() and not (site / top).exists():
                (site / top).symlink_to(source)
    return site


def test_the_core_alone_trains_on_the_bundled_digits(bare, tmp_path):
    """As in a fresh environment: none of this one's other packages can be found."""
    program = f"""
import sys
from importlib.util import find_spec
assert not [name for name in {AWAY} if find_spec(name)]
sys.argv = ["neuro", "train", *{SMALL}]
from neuro_cli.cli.main import main
main()
"""
    environment = clean_environment() | {"PYTHONPATH": os.pathsep.join((str(bare), str(ROOT))), "NEURO_CURVES": "1"}
    done = well(
        subprocess.run(
            [sys.executable, "-S", "-c", program], cwd=tmp_path, env=environment, capture_output=True, text=True, timeout=300
        )
    )
    assert "results in run" in done.stdout
    assert (tmp_path / "run" / "metrics.csv").read_text().count("\n") == 3
    assert (tmp_path / "run" / "curves.png").is_file()
