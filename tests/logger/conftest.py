"""Fixtures of the loggers' tests."""

import itertools
import logging
import sys
import types

import pytest


@pytest.fixture(autouse=True)
def _log_is_seen(monkeypatch: pytest.MonkeyPatch) -> None:
    """A run in this process cuts the package's log off from pytest's."""
    monkeypatch.setattr(logging.getLogger("neuro_cli"), "propagate", True)


@pytest.fixture
def _a_second_each(monkeypatch: pytest.MonkeyPatch) -> None:
    """TensorBoard reads a run's files in the order of the seconds in their names; here each has a second of its own."""
    pytest.importorskip("tensorboard.summary.writer.event_file_writer")
    clock = itertools.count(1_800_000_000)
    module = sys.modules["tensorboard.summary.writer.event_file_writer"]
    monkeypatch.setattr(module, "time", types.SimpleNamespace(time=lambda: next(clock)))
