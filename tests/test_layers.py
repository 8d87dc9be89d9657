"""Who may import whom: the picture in the design, held on the source itself, imports inside functions included."""

import ast
from collections.abc import Iterator
from functools import cache
from pathlib import Path

import pytest

import neuro_cli

PACKAGE = Path(neuro_cli.__file__).parent
MODULES = {
    ".".join(("neuro_cli", *path.relative_to(PACKAGE).with_suffix("").parts)).removesuffix(".__init__"): path
    for path in sorted(PACKAGE.rglob("*.py"))
}
SOURCES = {name: path.read_text() for name, path in MODULES.items()}

# a folder may import itself and what stands in a line above its own
LAYERS: tuple[tuple[str, ...], ...] = (
    ("core",),
    ("language", "tls"),
    ("model", "task", "sampler", "fabric", "logger", "selection", "election"),
    ("algo", "strategy"),
    ("scoring",),
    ("activation_noise",),
    ("distribution",),
    ("run_folder",),
    ("factory",),
    ("runner",),
    ("library",),
    ("evolve", "broker"),
    ("pool",),
    ("launch",),
    ("report", "bench", "search"),
    ("scaling", "export"),
    ("reproduce",),
    ("cli",),
)
HEIGHT = {name: height for height, names in enumerate(LAYERS) for name in names}
BLIND = {"algo"}  # sees the core only: no rank, no socket, no model class


def below(*folders: str) -> set[str]:
    """Modules of folders, by their dotted names."""
    return {name for name in MODULES if name.startswith(tuple(f"neuro_cli.{folder}." for folder in folders))}


ALLOWED = {
    "mpi4py": {"neuro_cli.fabric.mpi"},
    "hydra": below("cli"),
    "omegaconf": {
        *below("cli"),
        "neuro_cli.run_folder.config",
        "neuro_cli.run_folder.saved_yaml",
        "neuro_cli.evolve.peer",
        "neuro_cli.library.named",
    },
    "cryptography": below("tls"),
    "grpc": below("broker"),
    "grpc_health": below("broker"),
    "grpc_reflection": below("broker"),
    "google": below("broker"),
    "matplotlib": {"neuro_cli.run_folder.plot"},
    "jinja2": {"neuro_cli.report.page"},
    "pickle": set(),
    "cloudpickle": set(),
    "dill": set(),
    "joblib": set(),
    "shelve": set(),
    "marshal": set(),
}


parsed = cache(ast.parse)  # several tests read the same sources


def imports(source: str, module: str = "neuro_cli.x.y") -> Iterator[str]:
    """Dotted names that a source imports anywhere; ``from a import b`` gives ``a.b``, which may be a module."""
    for node in ast.walk(parsed(source)):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            base = ".".join(module.split(".")[: -node.level]) if node.level else ""
            yield from (".".join(part for part in (base, node.module, alias.name) if part) for alias in node.names)


def layer(name: str) -> str:
    """The folder of the package that a dotted name lies in."""
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
    return {ast.unparse(node) for node in ast.walk(parsed(source)) if isinstance(node, ast.Attribute)}


def circles(sources: dict[str, str]) -> set[frozenset[str]]:
    """Sets of modules that import each other, directly or through others of the set (strongly connected components)."""
    edges = {
        module: {name if name in sources else name.rpartition(".")[0] for name in imports(source, module)} & sources.keys()
        for module, source in sources.items()
    }
    reach = {module: _reached(module, edges) for module in edges}
    return {
        frozenset({module, *together})
        for module in edges
        if (together := {other for other in reach[module] if module in reach[other]}) - {module}
    }


def _reached(module: str, edges: dict[str, set[str]]) -> set[str]:
    found: set[str] = set()
    todo = [module]
    while todo:
        fresh = edges[todo.pop()] - found
        found |= fresh
        todo += fresh
    return found


def test_every_folder_of_the_package_has_its_layer():
    assert {layer(name) for name in MODULES} - {"", "__main__"} == HEIGHT.keys()


def test_a_group_of_options_has_its_folder():
    conf = next(path for path in (PACKAGE / "conf", PACKAGE.parent / "conf") if path.is_dir())
    groups = {path.name for path in conf.iterdir() if path.is_dir()} - {"experiment", "hydra", "table"}
    assert groups <= HEIGHT.keys()


def test_imports_go_down_only():
    found = {module: strays(module, source) for module, source in SOURCES.items() if layer(module) in HEIGHT}
    assert {module: names for module, names in found.items() if names} == {}


def test_no_files_import_each_other():
    assert circles(SOURCES) == set()


def test_mpi_hydra_and_picklers_stay_where_they_are_known():
    found = {module: foreign(module, source) for module, source in SOURCES.items()}
    assert {module: names for module, names in found.items() if names} == {}


def test_nothing_is_pickled():
    forbidden = {"torch.load", "torch.save", "np.load", "numpy.load"}
    found = {module: calls(source) & forbidden for module, source in SOURCES.items()}
    # a user may ask for such a file for other programs; neuro reads none, and arrays without their objects alone
    expected = {"neuro_cli.export.formats": {"torch.save"}, "neuro_cli.export.predict": {"np.load"}}
    assert {module: names for module, names in found.items() if names} == expected
    assert SOURCES["neuro_cli.export.predict"].count("np.load(path, allow_pickle=False)") == 1


def test_the_package_itself_imports_nothing_at_once():
    """``import neuro_cli`` costs nothing: ``load`` brings torch when it is asked for."""
    tree = ast.parse(SOURCES["neuro_cli"])
    at_once = [node for node in tree.body if isinstance(node, ast.Import | ast.ImportFrom)]
    assert [name for node in at_once for name in imports(ast.unparse(node))] == [
        "neuro_cli.core.lazy.lazily",
        "neuro_cli.core.machine.mkl.ask_for_same_bits",
    ]


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
        ("neuro_cli.run_folder.record", "from neuro_cli.factory.instantiate import make", ["neuro_cli.factory.instantiate.make"]),
        ("neuro_cli.runner.loop", "from neuro_cli.cli.main import main", ["neuro_cli.cli.main.main"]),
        ("neuro_cli.cli.main", "from neuro_cli.cli.overrides.check import checked\nfrom neuro_cli import __version__", []),
    ],
)
def test_a_wrong_import_would_be_seen(module, source, found):
    assert strays(module, source) == found


def test_a_circle_would_be_seen():
    sources = {
        "neuro_cli.a": "from neuro_cli.b import x",
        "neuro_cli.b": "def f():\n    from neuro_cli import c",
        "neuro_cli.c": "import neuro_cli.a",
        "neuro_cli.d": "from neuro_cli.a import y",
    }
    assert circles(sources) == {frozenset({"neuro_cli.a", "neuro_cli.b", "neuro_cli.c"})}


@pytest.mark.parametrize(
    "source",
    ["from mpi4py import MPI", "def f():\n    import hydra.utils", "import pickle as p", "from omegaconf import OmegaConf"],
)
def test_a_foreign_import_would_be_seen(source):
    assert len(foreign("neuro_cli.distribution.local", source)) == 1
