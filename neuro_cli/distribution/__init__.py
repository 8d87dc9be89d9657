"""Distribution methods: who scores whom, and what crosses the wire."""

from neuro_cli.core.lazy import lazily

__all__, __getattr__ = lazily(__name__, __file__)
