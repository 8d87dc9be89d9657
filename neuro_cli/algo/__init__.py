"""Algorithms turn fitnesses into the next centre."""

from neuro_cli.core.lazy import lazily

__all__, __getattr__, __dir__ = lazily(__name__, __file__)
