# `make train` and `make test` need Python 3.11 to 3.13 and nothing else; each makes .venv when it is missing.
PYTHON ?= python3
VENV ?= .venv
BIN := $(VENV)/bin

.PHONY: train test slow lint
.DELETE_ON_ERROR:

$(VENV)/installed: pyproject.toml
	$(PYTHON) -c 'import sys; sys.exit(not (3, 11) <= sys.version_info[:2] <= (3, 13) and "Python 3.11 to 3.13 is needed")'
	test -x $(BIN)/python || $(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --editable '.[all,dev]'
	touch $@

train: $(VENV)/installed  ## install and run the main job: a small network on the bundled digits
	$(BIN)/neuro train

test: $(VENV)/installed  ## install and run the tests
	$(BIN)/python -m pytest

slow: $(VENV)/installed  ## the tests that take minutes
	$(BIN)/python -m pytest -m slow

lint: $(VENV)/installed
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
