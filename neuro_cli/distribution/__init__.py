"""Distribution methods: which rank scores which members, and what ranks send each other."""

from neuro_cli.core.lazy import lazily

__all__, __getattr__, __dir__ = lazily(__name__, __file__)
