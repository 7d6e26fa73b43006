# make demo   set everything up in .venv and scan a fixture repository over a real git transport
# make test   set up all extras in .venv, then lint, type check and test (what CI runs)

PYTHON ?= python3
VENV ?= .venv
BIN := $(VENV)/bin
PIP := $(BIN)/python -m pip --disable-pip-version-check install --quiet

.PHONY: demo test lint types pytest clean

demo: $(VENV)/base.stamp
	$(BIN)/python fixtures/demo.py

test: lint types pytest

lint: $(VENV)/dev.stamp
	$(BIN)/ruff check .

types: $(VENV)/dev.stamp
	$(BIN)/mypy

pytest: $(VENV)/dev.stamp
	OMP_NUM_THREADS=1 $(BIN)/python -m pytest

$(BIN)/python:
	$(PYTHON) -m venv $(VENV)

$(VENV)/base.stamp: pyproject.toml constraints.txt | $(BIN)/python
	$(PIP) --constraint constraints.txt --editable .
	touch $@

$(VENV)/dev.stamp: pyproject.toml constraints.txt | $(BIN)/python
	$(PIP) --constraint constraints.txt --editable ".[dev]"
	touch $@ $(VENV)/base.stamp

clean:
	rm -rf $(VENV) .fixtures-cache .pytest_cache .mypy_cache .ruff_cache .hypothesis
