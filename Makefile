PYTHON ?= $(shell command -v python3.11 || command -v python3)
VENV := .venv
BIN := $(VENV)/bin
export OMP_NUM_THREADS ?= 1
export TOKENIZERS_PARALLELISM := false

.PHONY: demo test lint bench scoreboard clean
demo: $(VENV)/ready
	$(BIN)/python -m onnxlift.demo

test: lint
	$(BIN)/python -m pytest -n 2 --dist worksteal

lint: $(VENV)/ready
	$(BIN)/ruff check
	$(BIN)/ruff format --check
	$(BIN)/mypy

bench: $(VENV)/ready
	$(BIN)/python benchmarks/convert.py
	$(BIN)/python benchmarks/runtime.py
	$(BIN)/python benchmarks/fidelity.py

scoreboard: $(VENV)/ready
	$(BIN)/python benchmarks/scoreboard.py

$(VENV)/ready: pyproject.toml constraints.txt
	$(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --disable-pip-version-check -c constraints.txt torch
	$(BIN)/python -m pip install --quiet --disable-pip-version-check -c constraints.txt -e '.[dev]'
	touch $@

clean:
	rm -rf $(VENV) demo_out
