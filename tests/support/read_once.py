"""Reads a text once: in each composition Hydra parses some 16 YAML files again, 7 ms of a core each, and 17 interpolations."""

import pickle
from functools import cache
from typing import Any

import omegaconf._utils
import omegaconf.base
from omegaconf import OmegaConf, grammar_parser

_read = OmegaConf.load
_kept: dict[str, bytes] = {}


def load(file: Any) -> Any:
    """As ``OmegaConf.load``; a file that Hydra has opened is parsed once, whatever its name, and copied by pickle after that."""
    if not hasattr(file, "seek"):
        return _read(file)
    start = file.tell()
    text = file.read()
    if text not in _kept:
        file.seek(start)
        _kept[text] = pickle.dumps(_read(file))
    return pickle.loads(_kept[text])


OmegaConf.load = staticmethod(load)  # type: ignore[method-assign]
# the tree of an interpolation's text depends on nothing else, and nobody changes it; values are looked up each time
omegaconf.base.parse = omegaconf._utils.parse = cache(grammar_parser.parse)
