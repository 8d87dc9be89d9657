"""Errors of a user in a notebook: IPython shows what an error renders in place of its traceback."""

from neuro_cli import AskTell
from neuro_cli.core.errors import ConfigError, UserError


def _raised() -> UserError:
    try:
        AskTell([1.0], population=1)
    except UserError as error:
        return error
    raise AssertionError("no error")


def test_a_notebook_shows_one_line_of_a_user_error(monkeypatch):
    monkeypatch.delenv("NEURO_DEBUG", raising=False)
    error = _raised()
    assert error._render_traceback_() == [f"{type(error).__name__}: {error}"]
    assert ConfigError("key", "a\nb", "two\nlines")._render_traceback_() == ["ConfigError: key=a b: two lines"]


def test_a_notebook_shows_the_traceback_where_it_is_asked_for(monkeypatch):
    monkeypatch.setenv("NEURO_DEBUG", "1")
    first, *_, last = _raised()._render_traceback_()
    assert first.startswith("Traceback")
    assert "population=1" in last
