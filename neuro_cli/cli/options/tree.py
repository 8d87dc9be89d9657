"""Places of options: ``conf/``, and the user's own by ``--config-dir``, ``hydra.searchpath`` or a plugin of Hydra.

The same tree checks the arguments of a command and composes its config.
"""

from argparse import Namespace
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cached_property
from importlib import resources
from pathlib import Path
from typing import ClassVar

import hydra
from hydra import initialize_config_dir
from hydra.core.config_loader import ConfigLoader
from hydra.core.config_search_path import ConfigSearchPath
from hydra.core.global_hydra import GlobalHydra
from hydra.core.object_type import ObjectType
from hydra.core.override_parser.overrides_parser import OverridesParser
from hydra.core.plugins import Plugins
from hydra.errors import HydraException
from hydra.plugins.config_source import ConfigSource
from hydra.plugins.search_path_plugin import SearchPathPlugin

from neuro_cli.core.errors import ConfigError, UserError
from neuro_cli.core.files import config_folder
from neuro_cli.factory.own_code import let_import

SEARCH_PATH = "hydra.searchpath"
HYDRAS = ("hydra", "_sample_root")  # groups of Hydra itself
BASE = {"version_base": "1.3"} if hydra.__version__.startswith("1.3.") else {}  # 1.4 has these defaults without the word
PROVIDERS = ("hydra", "main", "schema")  # places of a command that names no other: Hydra's own configs and conf/


class CommandPlaces(SearchPathPlugin):
    """Adds the places that the present command names to Hydra's search path."""

    paths: ClassVar[tuple[str, ...]] = ()

    def manipulate_search_path(self, search_path: ConfigSearchPath) -> None:
        for path in self.paths:
            search_path.append("command line", path)


@dataclass(frozen=True)
class ConfigTree:
    """Config ``name`` of a verb in ``conf/``, with more options in ``places``: URLs of folders (file://) and packages (pkg://)."""

    name: str
    places: tuple[str, ...] = ()

    @cached_property
    def more(self) -> bool:
        """Return whether the tree has options outside of ``conf/``."""
        with self.loaded() as loader:
            return any(place.provider not in PROVIDERS for place in loader.get_search_path().get_path())

    @contextmanager
    def loaded(self) -> Iterator[ConfigLoader]:
        """Enter Hydra with the search path of this tree of options."""
        Plugins.instance().register(CommandPlaces)
        CommandPlaces.paths = self.places
        try:
            entered = initialize_config_dir(str(config_folder()), job_name=self.name, **BASE)
        finally:
            CommandPlaces.paths = ()
        with entered:
            yield GlobalHydra.instance().config_loader()

    @cached_property
    def groups(self) -> dict[str, list[str]]:
        """Return the groups of all places with their options; a group within another one is named by its path."""
        with self.loaded() as loader:
            return _below(loader.get_sources(), "")

    @cached_property
    def own_groups(self) -> frozenset[str]:
        """Return the groups of the tree that ``conf/`` does not have."""
        if not self.more:
            return frozenset()
        ours = {folder.name for folder in config_folder().iterdir() if folder.is_dir()}
        return frozenset(name for name in self.groups if "/" not in name) - ours - set(HYDRAS)


def _below(sources: list[ConfigSource], parent: str) -> dict[str, list[str]]:
    """Return the groups below ``parent`` by asking each place: Hydra's loader copies all of its options for each question."""

    def listed(kind: ObjectType) -> list[str]:
        return sorted({name for source in sources if source.is_group(parent) for name in source.list(parent, kind)})

    groups: dict[str, list[str]] = {}
    for name in listed(ObjectType.GROUP):
        groups |= _below(sources, f"{parent}/{name}" if parent else name)
    options = listed(ObjectType.CONFIG) if parent else []
    return {parent: options, **groups} if options else groups


def tree_of(verb: str, flags: Namespace) -> ConfigTree:
    """Return the tree that the flags and overrides of a command name. Raises UserError for a place that does not exist."""
    places = [place for text in flags.overrides if sets_places(text) for place in _searched(text)]
    if flags.config_dir:
        if not Path(flags.config_dir).is_dir():
            raise UserError(f"--config-dir {flags.config_dir}: there is no such folder")
        places.insert(0, f"file://{Path(flags.config_dir).absolute()}")
    return ConfigTree(flags.config_name or verb, tuple(places))


def sets_places(text: str) -> bool:
    """Return whether an override names places of options, which are part of a tree, and no key of a config."""
    return text.lstrip("+").startswith(f"{SEARCH_PATH}=")


def _searched(text: str) -> list[str]:
    """Return the places in an override of ``hydra.searchpath``. Raises ConfigError."""
    value = text.partition("=")[2]
    try:
        places = OverridesParser.create().parse_override(text).value()
    except HydraException as error:
        raise ConfigError(SEARCH_PATH, value, "must be a list of places, [file://FOLDER,pkg://PACKAGE.MODULE]") from error
    places = [str(place) for place in (places if isinstance(places, list) else [places])]
    for place in places:
        scheme, separator, rest = place.partition("://")
        if not separator or scheme not in ("file", "pkg"):
            raise ConfigError(SEARCH_PATH, place, f"must begin with file:// or pkg://, for example file://{place}")
        if scheme == "file" and not Path(rest).is_dir():
            raise ConfigError(SEARCH_PATH, place, "there is no such folder")
        if scheme == "pkg":
            let_import()  # the user has just named the package, which may lie in the current folder
            if not _has_files(rest):
                raise ConfigError(SEARCH_PATH, place, "there is no such package with a folder of configs")
    return places


def _has_files(package: str) -> bool:
    try:
        return resources.files(package).is_dir()
    except (ImportError, TypeError, ValueError):
        return False
