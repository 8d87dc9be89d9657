"""Writes the generated pages of the reference: python scripts/reference_pages.py. `make docs` does so by docs/conf.py.

Configuration comes from the comments in conf/, the Python API from the public names (`__all__`), the tables of the command line
and of the run folder from the code. None of these texts is committed.
"""

import importlib
import inspect
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT))

from omegaconf import DictConfig, OmegaConf  # noqa: E402

import neuro_cli  # noqa: E402
from neuro_cli.cli.compose import plain_keys  # noqa: E402
from neuro_cli.cli.main import help_text  # noqa: E402
from neuro_cli.cli.options.groups import groups  # noqa: E402
from neuro_cli.cli.options.help import comments, keys_of  # noqa: E402
from neuro_cli.cli.overrides.check import checked  # noqa: E402
from neuro_cli.cli.verbs.resume import RESUME_GROUPS, RESUME_KEYS  # noqa: E402
from neuro_cli.core.files import config_folder  # noqa: E402

FOLDER = ROOT / "docs" / "reference"
VERBS = ("train", "evolve", "search", "scale")
# whose contract a class of the user's own may derive from
CONTRACTS = ("sampler", "algo", "distribution", "task", "logger")
# classes of other files that belong to a contract
MORE = {
    "sampler": ["sampler.dense.Dense"],
    "task": ["core.metric.Metric"],
    "Evolution": ["library.loop.Loop", "library.candidates.Candidates"],
}
API_HEAD = """# Python API

Made from the docstrings of `import neuro_cli as neuro`. Shapes stand in brackets: P members, D directions of noise, M parameters
(columns), B examples, N ranks. An error that a user can mend is a `UserError` of one line.
"""
CONFIGURATION_HEAD = """# Configuration

Every key with its default and the comment of its file in `conf/`, made by `make docs`. `neuro train --help` shows the same for
the options that are chosen. A key is set by `key=value`, an
option by `group=option`; `a: {b: 1}` is typed `a.b=1`.
"""
TABLE = ("| key | default | meaning |", "|---|---|---|")
LEFT_OUT_KEYS = ("_target_", "_partial_", "key")  # the class behind an option, and what a schedule is called in errors


def configuration() -> str:
    """Every key with its default and comment."""
    options = {group: names for group, names in groups().items() if group != "experiment"}
    return page({verb: checked(verb, []).composed for verb in VERBS}, options)


def page(verbs: Mapping[str, DictConfig], groups: Mapping[str, list[str]]) -> str:
    """Return the configuration reference: root keys of ``verbs`` with their composed defaults, then options of ``groups``."""
    parts = [CONFIGURATION_HEAD]
    for verb, composed in verbs.items():
        texts = comments(verb, {})
        parts += [f"## neuro {verb}", "", *TABLE, *_rows(plain_keys(composed, "hydra"), texts, groups), ""]
    for group, options in groups.items():
        parts += [f"## {group}", ""]
        for option in options:
            file = config_folder() / group / f"{option}.yaml"
            texts = keys_of(file)
            node = OmegaConf.to_container(OmegaConf.load(file))
            assert isinstance(node, dict)
            rows = _rows({str(key): value for key, value in node.items()}, texts, {})
            parts += [f"### {group}={option}", "", f"{_cell(texts[''])}.", ""] if texts[""] else [f"### {group}={option}", ""]
            parts += [*TABLE, *rows, ""] if rows else []
    return "\n".join(parts).rstrip() + "\n"


def _rows(node: Mapping[str, Any], texts: Mapping[str, str], groups: Mapping[str, Any], prefix: str = "") -> list[str]:
    rows = []
    for name, value in node.items():
        key = f"{prefix}{name}"
        if name in LEFT_OUT_KEYS or key in groups or name == "defaults" or key.startswith("known_"):
            continue
        if isinstance(value, dict) and value:
            rows += _rows(value, texts, groups, f"{key}.")
        else:
            text = texts.get(key) or (texts.get(prefix.rstrip("."), "") if prefix else "")
            rows.append(f"| `{key}` | `{_value(value)}` | {_cell(text)} |")
    return rows


def _value(value: Any) -> str:
    return "null" if value is None else str(value).lower() if isinstance(value, bool) else str(value).replace("|", "\\|")


def _cell(text: str) -> str:
    return text.replace("|", "\\|").replace("<", "&lt;")


def public() -> dict[str, list[str]]:
    """Public names of the package and of its public packages, by package."""
    packages = [name for name in neuro_cli.__all__ if inspect.ismodule(getattr(neuro_cli, name))]
    names = {"neuro_cli": [name for name in neuro_cli.__all__ if name not in packages]}
    return names | {f"neuro_cli.{name}": list(importlib.import_module(f"neuro_cli.{name}").__all__) for name in packages}


def api() -> str:
    """Directives for every public name, then for the classes of each group's ``base.py``."""
    parts, done = [API_HEAD], set()
    for package, names in public().items():
        listed: list[str] = []
        for name in names:
            thing = getattr(importlib.import_module(package), name)
            if getattr(thing, "__module__", "").endswith(".base"):
                continue  # a contract
            listed += directive(package, name, thing, members=package == "neuro_cli")
            done.add(thing if inspect.isclass(thing) else name)
            listed += more(name)
        parts += section(f"## {package}", listed)
    parts += ["## Contracts\n\nClasses that an option of your own derives from ([how](../how_to/extending.md)).\n"]
    for group in CONTRACTS:
        module = importlib.import_module(f"neuro_cli.{group}.base")
        own = [thing for thing in vars(module).values() if inspect.isclass(thing) and thing.__module__ == module.__name__]
        shown = [thing for thing in own if not thing.__name__.startswith("_") and thing.__doc__ and thing not in done]
        parts += section(
            f"### {group}",
            [line for thing in shown for line in directive(module.__name__, thing.__name__, thing, True)] + more(group),
        )
    return "\n".join(parts).rstrip() + "\n"


def more(name: str) -> list[str]:
    """Lines of the further classes of a contract, or of what a class returns."""
    return [line for path in MORE.get(name, []) for line in (f".. autoclass:: neuro_cli.{path}", "   :members:", "")]


def section(heading: str, lines: list[str]) -> list[str]:
    """A heading with a block of directives."""
    return [heading, "", "```{eval-rst}", *lines, "```", ""]


def directive(package: str, name: str, thing: Any, members: bool) -> list[str]:
    """Lines of autodoc for one name; the docstring of an option's module comes first."""
    if name == "__version__":
        return [f".. autodata:: {package}.{name}", "   :no-value:", "", "   Version of the package, a text.", ""]
    if not inspect.isclass(thing):
        return [f".. autofunction:: {package}.{name}", ""]
    kind = "exception" if issubclass(thing, BaseException) else "class"
    head = [f".. automodule:: {thing.__module__}", ""] if not members else []
    return [*head, f".. auto{kind}:: {package}.{name}", *(["   :members:"] if members and kind == "class" else []), ""]


def command_line() -> str:
    """The help of the command, and a table of all options."""
    rows = [f"| `{group}` | {', '.join(f'`{name}`' for name in names)} |" for group, names in groups().items()]
    listed = ["## Groups and options", "", "| group | options |", "|---|---|", *rows, "", *described("experiment")]
    return "\n".join(["## Help", "", "```text", help_text().strip(), "```", "", *listed]) + "\n"


def described(group: str) -> list[str]:
    """A table of a group's options with the comments at the top of their files."""
    files = sorted((config_folder() / group).glob("*.yaml"))
    heads = {file.stem: keys_of(file)[""].replace("@package _global_ ", "").replace("|", "\\|") for file in files}
    return [f"| `{group}` | what it is |", "|---|---|", *[f"| `{name}` | {head} |" for name, head in heads.items()], ""]


def resumable() -> str:
    """A list of what `neuro resume` may change."""
    keys, kinds = (", ".join(f"`{name}`" for name in names) for names in (RESUME_KEYS, RESUME_GROUPS))
    return f"## Keys that may change on resume\n\nKeys: {keys}.\n\nGroups: {kinds}.\n"


def write() -> None:
    """Write the pages that are generated as a whole."""
    for name, text in (("configuration", configuration()), ("api", api())):
        file = FOLDER / f"{name}.md"
        if not file.is_file() or file.read_text(encoding="utf-8") != text:
            file.write_text(text, encoding="utf-8")


if __name__ == "__main__":
    write()
