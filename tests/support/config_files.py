"""Each file of ``conf/`` is parsed once: Hydra does it for every composition, where it takes a fifth of the time."""

import pickle
from typing import Any

from hydra._internal.sources_registry import SourcesRegistry
from hydra.core.plugins import Plugins

from neuro_cli.core.files import config_folder

Plugins.instance()  # it fills the registry, with classes that no module has
SOURCE: Any = SourcesRegistry.instance().types["file"]
parse = SOURCE.load_config
_parsed: dict[tuple[str, str], bytes] = {}


def load_config(source: Any, config_path: str) -> Any:
    if source.path != str(config_folder()):  # a user's, which a test may change
        return parse(source, config_path)
    key = source.provider, config_path
    if key not in _parsed:
        _parsed[key] = pickle.dumps(parse(source, config_path))
    return pickle.loads(_parsed[key])


SOURCE.load_config = load_config
