"""Tasks: what a candidate is scored on."""

from neuro_cli.core.lazy import lazily

__all__, __getattr__, __dir__ = lazily(__name__, __file__)
