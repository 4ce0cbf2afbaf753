PYTHON ?= $(shell command -v python3.11 || command -v python3)
VENV := .venv
BIN := $(VENV)/bin
LOWEST := .venv-lowest
PIP := -m pip install --quiet --disable-pip-version-check
export OMP_NUM_THREADS ?= 1
export TOKENIZERS_PARALLELISM := false

.PHONY: help demo test lint test-lowest docs bench scoreboard peers clean
help: ## say what there is
	@grep -hE '^[a-z-]+:.*## ' $(MAKEFILE_LIST) | sed -E 's/^([a-z-]+):.*## /\1|/' | awk -F'|' '{ printf "make %-12s %s\n", $$1, $$2 }'

demo: $(VENV)/ready ## build two models, lift them, compare them with ONNX Runtime, and show the source
	$(BIN)/python -m onnxlift.demo

test: lint ## lint, types, and all tests
	$(BIN)/python -m pytest -n 2 --dist worksteal

lint: $(VENV)/ready ## ruff and mypy
	$(BIN)/ruff check
	$(BIN)/ruff format --check
	$(BIN)/mypy

test-lowest: $(LOWEST)/ready ## a part of the tests with the lowest versions that pyproject.toml declares
	$(LOWEST)/bin/python -m pytest -n 2 $(LOWEST_TESTS)

docs: $(VENV)/docs-ready ## build the documentation into site/, with warnings as errors
	$(BIN)/python -m mkdocs build --strict --quiet

bench: $(VENV)/ready ## times of conversion and of lifted modules, and how much of the original comes back
	$(BIN)/python benchmarks/convert.py
	$(BIN)/python benchmarks/runtime.py
	$(BIN)/python benchmarks/fidelity.py

scoreboard: $(VENV)/ready ## run every operator's cases, and write docs/OPERATORS.md
	$(BIN)/python benchmarks/scoreboard.py

peers: $(VENV)/ready ## run ONNX's cases through other converters and runtimes, in an environment of their own
	$(BIN)/python benchmarks/peers.py

$(VENV)/ready: pyproject.toml constraints.txt
	$(PYTHON) -m venv $(VENV)
	$(BIN)/python $(PIP) -c constraints.txt torch
	$(BIN)/python $(PIP) -c constraints.txt -e '.[dev]'
	touch $@

$(VENV)/docs-ready: $(VENV)/ready
	$(BIN)/python $(PIP) -c constraints.txt -e '.[docs]'
	touch $@

$(LOWEST)/ready: pyproject.toml constraints-lowest.txt
	$(PYTHON) -m venv $(LOWEST)
	$(LOWEST)/bin/python $(PIP) -c constraints-lowest.txt torch
	$(LOWEST)/bin/python $(PIP) -c constraints-lowest.txt -e '.[verify,test]'
	touch $@

# Left out is what needs more than these versions for the test itself: models that PyTorch exports, and the conformance
# tests, which name cases of the newest onnx.
LOWEST_TESTS := tests/cli tests/ir tests/lifting/text tests/rewriting/simplifying tests/verification

clean: ## remove what make has made
	rm -rf $(VENV) $(LOWEST) site demo_out
