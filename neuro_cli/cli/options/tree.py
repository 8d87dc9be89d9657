"""Places of options: ``conf/``, and the user's own by ``--config-dir``, ``hydra.searchpath`` or a plugin of Hydra.

Hydra has the same search path when it runs the verb; here it is made first, so that every argument is checked against all of it.
"""

from argparse import Namespace
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

from hydra import initialize_config_dir
from hydra._internal.config_search_path_impl import SearchPathElement
from hydra._internal.core_plugins.importlib_resources_config_source import ImportlibResourcesConfigSource
from hydra.core.config_loader import ConfigLoader
from hydra.core.global_hydra import GlobalHydra
from hydra.core.override_parser.overrides_parser import OverridesParser
from hydra.core.plugins import Plugins
from hydra.errors import HydraException
from hydra.plugins.search_path_plugin import SearchPathPlugin

from neuro_cli.core.errors import ConfigError, UserError
from neuro_cli.core.files import config_folder
from neuro_cli.factory.own_code import let_import

SEARCH_PATH = "hydra.searchpath"
HYDRAS = ("hydra", "_sample_root")  # groups that are not the user's


@dataclass(frozen=True)
class ConfigTree:
    """Config ``name`` of a verb, found in ``conf/`` and in ``paths``: URLs of folders (file://) and packages (pkg://)."""

    name: str
    paths: tuple[str, ...]

    @property
    def more(self) -> bool:
        """Tell whether there is anything beside ``conf/``."""
        return bool(self.paths) or any(not kind.__module__.startswith("hydra._internal") for kind in _plugins())

    @contextmanager
    def loaded(self) -> Iterator[ConfigLoader]:
        """Hydra with this search path. Raises UserError for a folder or a package that is not there."""
        with initialize_config_dir(str(config_folder()), version_base="1.3", job_name=self.name):
            hydra = GlobalHydra.instance().hydra
            assert hydra is not None
            if self.paths:
                search = hydra.config_loader.get_search_path()
                own = [SearchPathElement("command line", path) for path in self.paths]
                search.get_path()[-1:-1] = own  # Hydra's schemas stay the last
                hydra.config_loader.repository.initialize_sources(search)  # type: ignore[attr-defined]
            yield hydra.config_loader

    @cached_property
    def own_groups(self) -> frozenset[str]:
        """Groups that ``conf/`` does not have."""
        if not self.more:
            return frozenset()
        ours = {folder.name for folder in config_folder().iterdir() if folder.is_dir()}
        with self.loaded() as loader:
            return frozenset(loader.list_groups("")) - ours - set(HYDRAS)

    def options(self, group: str) -> list[str]:
        """Options of ``group`` wherever they lie."""
        with self.loaded() as loader:
            return list(loader.get_group_options(group))


def tree_of(verb: str, parsed: Namespace) -> ConfigTree:
    """Tree that the flags and overrides of a command name. Raises UserError for a place that is not there."""
    paths = []
    if parsed.config_dir:
        folder = Path(parsed.config_dir)
        if not folder.is_dir():
            raise UserError(f"--config-dir {folder}: there is no such folder")
        paths.append(f"file://{folder.absolute()}")
    for text in parsed.overrides:
        if text.lstrip("+").startswith(f"{SEARCH_PATH}="):
            paths += _named(text)
    return ConfigTree(parsed.config_name or verb, tuple(paths))


def _named(text: str) -> list[str]:
    """Places in an override of ``hydra.searchpath``. Raises ConfigError."""
    value = text.partition("=")[2]
    try:
        places = OverridesParser.create().parse_override(text).value()
    except HydraException as error:
        raise ConfigError(SEARCH_PATH, value, "must be a list of places, [file://FOLDER,pkg://PACKAGE.MODULE]") from error
    places = places if isinstance(places, list) else [places]
    for place in map(str, places):
        scheme, separator, rest = place.partition("://")
        if not separator or scheme not in ("file", "pkg"):
            raise ConfigError(SEARCH_PATH, place, f"must begin with file:// or pkg://, for example file://{place}")
        if scheme == "file" and not Path(rest).is_dir():
            raise ConfigError(SEARCH_PATH, place, "there is no such folder")
        if scheme == "pkg":
            let_import()  # a package of the current folder, which the user has just named
            if not ImportlibResourcesConfigSource("command line", place).available():
                raise ConfigError(SEARCH_PATH, place, "there is no such package with a folder of configs")
    return [str(place) for place in places]


def _plugins() -> list[type[Any]]:
    return list(Plugins.instance().discover(SearchPathPlugin))
