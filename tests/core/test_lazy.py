"""A module that is imported at its first use."""

import sys

import pytest

import neuro_cli
from neuro_cli.core.lazy import LazyModule


def test_a_module_is_imported_at_the_first_of_its_names(tmp_path, monkeypatch):
    (tmp_path / "late_one.py").write_text("value = 3\n")
    monkeypatch.syspath_prepend(str(tmp_path))
    late = LazyModule("late_one")
    assert "late_one" not in sys.modules
    assert late.value == 3
    monkeypatch.setattr(sys.modules["late_one"], "value", 4)
    assert late.value == 4
    with pytest.raises(AttributeError, match="missing"):
        late.missing  # noqa: B018
    del sys.modules["late_one"]


def test_every_public_name_is_listed_and_a_wrong_one_has_a_suggestion():
    assert set(neuro_cli.__all__) == set(dir(neuro_cli))
    assert all(getattr(neuro_cli, name) is not None for name in dir(neuro_cli))
    with pytest.raises(AttributeError) as raised:
        neuro_cli.Evolutoin  # noqa: B018
    assert (raised.value.name, raised.value.obj) == ("Evolutoin", neuro_cli)  # a traceback adds: Did you mean: 'Evolution'?
