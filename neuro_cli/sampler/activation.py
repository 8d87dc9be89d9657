"""Noise on activations under its name in configs and saved runs; it lives in ``neuro_cli.activation_noise``, a layer above."""

from importlib import import_module
from typing import Any


def __getattr__(name: str) -> Any:
    if name != "Activation":
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return import_module("neuro_cli.activation_noise.estimator").Activation
