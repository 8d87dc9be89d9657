"""Who may import whom: the picture in the design, held on the source itself, imports inside functions included."""

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest

import neuro_cli

PACKAGE = Path(neuro_cli.__file__).parent
MODULES = {
    ".".join(("neuro_cli", *path.relative_to(PACKAGE).with_suffix("").parts)).removesuffix(".__init__"): path
    for path in sorted(PACKAGE.rglob("*.py"))
}

# a layer may import itself (of one line: its own folder only) and what stands above it
LAYERS: tuple[tuple[str, ...], ...] = (
    ("core",),
    ("model", "task", "sampler", "fabric", "logger", "selection", "election"),
    ("algo",),
    ("distribution",),
    ("runner",),
    ("report", "evolve", "broker"),
    ("search",),
    ("reproduce",),
    ("overrides", "sweep"),
    ("verbs",),
    ("cli",),
    ("entry",),
)
HEIGHT = {name: height for height, names in enumerate(LAYERS) for name in names}
BLIND = {"algo"}  # sees the core only: no rank, no socket, no model class
VERBS = {name for name in MODULES if name.startswith("neuro_cli.verbs.")}
HYDRA = {*VERBS, "neuro_cli.overrides", "neuro_cli.sweep", "neuro_cli.runner.build"}
BROKER = {name for name in MODULES if name.startswith("neuro_cli.broker.")}
ALLOWED = {
    "mpi4py": {"neuro_cli.fabric.mpi"},
    "hydra": HYDRA,
    "omegaconf": {*HYDRA, "neuro_cli.runner.runs", "neuro_cli.runner.saved_yaml", "neuro_cli.evolve.local"},
    "grpc": BROKER,
    "grpc_health": BROKER,
    "grpc_reflection": BROKER,
    "google": BROKER,
    "bokeh": {name for name in MODULES if name.startswith("neuro_cli.report.")},
    "jinja2": {"neuro_cli.report.page", "neuro_cli.reproduce.page"},
    "pickle": set(),
    "cloudpickle": set(),
    "dill": set(),
    "joblib": set(),
    "shelve": set(),
    "marshal": set(),
}


def imports(source: str, module: str = "neuro_cli.x.y") -> Iterator[str]:
    """Dotted names that a source imports anywhere; ``from a import b`` gives ``a.b``, which may be a module."""
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            base = ".".join(module.split(".")[: -node.level]) if node.level else ""
            yield from (".".join(part for part in (base, node.module, alias.name) if part) for alias in node.names)


def layer(name: str) -> str:
    """The part of the package that a dotted name lies in."""
    return name.split(".")[1] if "." in name else ""


def strays(module: str, source: str) -> list[str]:
    """Imports of ``source`` from its own package that its layer may not have."""
    own, found = layer(module), []
    for name in imports(source, module):
        other = layer(name)
        if name.split(".")[0] != "neuro_cli" or other not in HEIGHT or other == own:
            continue
        if HEIGHT[other] >= HEIGHT[own] or (own in BLIND and other != "core"):
            found.append(name)
    return found


def foreign(module: str, source: str) -> list[str]:
    """Imports of ``source`` that are kept to other modules."""
    return [name for name in imports(source, module) if module not in ALLOWED.get(name.split(".")[0], {module})]


def calls(source: str) -> set[str]:
    """Dotted names that a source calls or mentions."""
    return {ast.unparse(node) for node in ast.walk(ast.parse(source)) if isinstance(node, ast.Attribute)}


def test_every_part_of_the_package_has_its_layer():
    parts = {layer(name) for name in MODULES} - {""}
    assert parts - {"__main__"} == HEIGHT.keys()


@pytest.mark.parametrize("module", [name for name in MODULES if layer(name) in HEIGHT])
def test_imports_go_down_only(module):
    assert strays(module, MODULES[module].read_text()) == []


@pytest.mark.parametrize("module", MODULES)
def test_mpi_hydra_and_picklers_stay_where_they_are_known(module):
    assert foreign(module, MODULES[module].read_text()) == []


@pytest.mark.parametrize("module", MODULES)
def test_nothing_is_pickled(module):
    assert calls(MODULES[module].read_text()) & {"torch.load", "torch.save", "np.load", "numpy.load"} == set()


def test_the_package_itself_imports_nothing_at_once():
    """``import neuro_cli`` costs nothing: ``load`` brings torch when it is asked for."""
    tree = ast.parse(MODULES["neuro_cli"].read_text())
    at_once = [node for node in tree.body if isinstance(node, ast.Import | ast.ImportFrom)]
    assert [name for node in at_once for name in imports(ast.unparse(node))] == ["typing.Any"]


@pytest.mark.parametrize(
    ("module", "source", "found"),
    [
        ("neuro_cli.core.noise", "from neuro_cli.algo.base import State", ["neuro_cli.algo.base.State"]),
        (
            "neuro_cli.algo.snes",
            "def f():\n    import neuro_cli.fabric.mpi, neuro_cli.runner",
            ["neuro_cli.fabric.mpi", "neuro_cli.runner"],
        ),
        ("neuro_cli.task.mnist", "from neuro_cli import model", ["neuro_cli.model"]),
        ("neuro_cli.task.mnist", "from ..logger import csv", ["neuro_cli.logger.csv"]),
        ("neuro_cli.runner.train", "from neuro_cli.cli import main", ["neuro_cli.cli.main"]),
        ("neuro_cli.overrides", "from neuro_cli import cli", ["neuro_cli.cli"]),
        ("neuro_cli.cli", "from neuro_cli.overrides import checked\nfrom neuro_cli import __version__", []),
    ],
)
def test_a_wrong_import_would_be_seen(module, source, found):
    assert strays(module, source) == found


@pytest.mark.parametrize(
    "source",
    ["from mpi4py import MPI", "def f():\n    import hydra.utils", "import pickle as p", "from omegaconf import OmegaConf"],
)
def test_a_foreign_import_would_be_seen(source):
    assert len(foreign("neuro_cli.distribution.local", source)) == 1
