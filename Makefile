# Needs make and Python 3.11 or newer, nothing else: every target sets up .venv first.
# `make PYTHON=python3.12 setup` picks another Python.

PYTHON ?= python3
BIN := .venv/bin

.DEFAULT_GOAL := help
.PHONY: help setup demo test check format bench docs clean

help: ## list the targets
	@awk -F ':.*## ' '/^[a-z]+:.*## / { printf "  make %-7s %s\n", $$1, $$2 }' Makefile

setup: .venv/installed-dev ## create .venv and install the package, its extras and the tools into it

demo: .venv/installed ## see what knowledge changes: plain encoder, types, text and placebo compared on one task
	$(BIN)/infuser demo

# one thread per process: two processes with one thread each take half the time of one process with two
test: export OMP_NUM_THREADS := 1
test: setup ## run the whole test suite, slow tests too
	$(BIN)/python -m pytest --numprocesses auto --maxprocesses 4 --dist worksteal

check: setup ## check format, lint and types; changes nothing
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .
	$(BIN)/mypy
	$(BIN)/lint-imports

format: setup ## format the code and mend what lint can mend
	$(BIN)/ruff format .
	$(BIN)/ruff check --fix .

bench: setup ## run every script in benchmarks/ in turn
	@set -e; for script in benchmarks/*.py; do \
		test -f "$$script" || { echo "There is no script in benchmarks/ yet."; exit 1; }; \
		echo "== $$script"; $(BIN)/python "$$script"; \
	done

docs: .venv/installed-docs ## build docs/ into site/; a broken link is an error
	$(BIN)/mkdocs build --strict

clean: ## remove caches and built files; .venv and runs/ stay
	rm -rf build dist site .mypy_cache .ruff_cache .pytest_cache .hypothesis
	find src tests benchmarks examples -name __pycache__ -type d -prune -exec rm -rf {} + 2>/dev/null || true

# for set-up alone: the build backend comes through the same pins (newer versions of pip read the second name)
.venv/installed .venv/installed-dev .venv/installed-docs: export PIP_CONSTRAINT := constraints.txt
.venv/installed .venv/installed-dev .venv/installed-docs: export PIP_BUILD_CONSTRAINT := constraints.txt

.venv/installed: pyproject.toml constraints.txt
	@command -v $(PYTHON) >/dev/null || { \
		echo "There is no '$(PYTHON)' here; Infuser needs Python 3.11 or newer. Name yours: make PYTHON=python3.12 setup"; exit 1; }
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || { \
		echo "Infuser needs Python 3.11 or newer; '$(PYTHON)' is $$($(PYTHON) --version 2>&1)."; \
		echo "Name another one: make PYTHON=python3.12 setup"; exit 1; }
	@echo "Setting up .venv with $$($(PYTHON) --version): pip now fetches torch, transformers and what they need."
	@echo "This takes a few minutes and about 2 GB of disk the first time, and is skipped until a pin changes."
	$(PYTHON) -m venv .venv
	$(BIN)/python -m pip install -c constraints.txt -e .
	@touch $@
	@echo "Ready: .venv holds Infuser."

.venv/installed-dev: .venv/installed
	@echo "Adding the test tools, the taggers and the client libraries to .venv."
	$(BIN)/python -m pip install -c constraints.txt -e ".[dev,clients,bench,datasets,export,gliner,pykeen,rdf,spacy,spark,stanza]"
	@touch $@

.venv/installed-docs: .venv/installed-dev
	@echo "Adding the documentation builder to .venv."
	$(BIN)/python -m pip install -c constraints.txt -e ".[docs]"
	@touch $@
