"""Algorithms: how fitnesses become the next centre."""

from neuro_cli.core.lazy import lazily

__all__, __getattr__ = lazily(__name__, __file__)
