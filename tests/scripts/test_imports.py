"""What scripts import of the package and of each other exists: most need a GPU, a peer or an hour, so nothing else runs them."""

import ast
import importlib.util
import sys
from pathlib import Path

import pytest

SCRIPTS = Path(__file__).resolve().parents[2] / "scripts"
PEERS = {
    "brevitas", "cocoex", "evosax", "evotorch", "flax", "jax", "nflows", "optax", "pymatgen", "spikingjelly", "timm",
    "torch_geometric", "transformers",
}  # fmt: skip


def imports(path: Path) -> list[tuple[str, list[str]]]:
    """Return the modules that a file imports, each with the names taken from it."""
    nodes = list(ast.walk(ast.parse(path.read_text())))
    plain = [(alias.name, []) for node in nodes if isinstance(node, ast.Import) for alias in node.names]
    return plain + [
        (node.module, [alias.name for alias in node.names]) for node in nodes if isinstance(node, ast.ImportFrom) and node.module
    ]


@pytest.mark.parametrize(
    "folder", [SCRIPTS, SCRIPTS / "peers", SCRIPTS / "random_programs", SCRIPTS / "zoo"], ids=lambda folder: folder.name
)
def test_what_scripts_import_exists(folder):
    missing = []
    for path in sorted(folder.glob("*.py")):
        for module, names in imports(path):
            name = f"{module.replace('.', '/')}.py"
            own = next((place for place in (folder / name, SCRIPTS / name) if place.exists()), None)
            if own is not None:
                body = ast.parse(own.read_text()).body
                defined = {getattr(node, "name", None) for node in body}
                defined |= {name.id for node in body for name in ast.walk(node) if isinstance(name, ast.Name)}
            elif module.partition(".")[0] == "neuro_cli":
                found = importlib.import_module(module)
                defined = {name for name in names if hasattr(found, name) or importlib.util.find_spec(f"{module}.{name}")}
            else:
                top = module.partition(".")[0]
                known = top in sys.stdlib_module_names or top in PEERS or importlib.util.find_spec(top) is not None
                missing += [] if known else [f"{path.name}: {module}"]
                continue
            missing += [f"{path.name}: {module}.{name}" for name in names if name not in defined]
    assert not missing
