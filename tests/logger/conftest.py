"""Fixtures of the loggers' tests."""

import logging

import pytest


@pytest.fixture(autouse=True)
def _log_is_seen(monkeypatch: pytest.MonkeyPatch) -> None:
    """A run in this process cuts the package's log off from pytest's."""
    monkeypatch.setattr(logging.getLogger("neuro_cli"), "propagate", True)
