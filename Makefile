# Every target sets up what it needs: a virtual environment with pinned versions, made once for each PYTHON that is named.
ifeq ($(origin PYTHON), undefined)
PYTHON := python3
VENV := .venv
else
VENV := .venv-$(notdir $(PYTHON))
# The shims of pyenv start no version that is not chosen.
CHOOSE := $(if $(filter python3.%,$(PYTHON)),PYENV_VERSION=$(PYTHON:python%=%))
endif
BIN := $(VENV)/bin
READY := $(VENV)/.ready
# Pins what the build itself needs, too.
export PIP_CONSTRAINT := $(CURDIR)/constraints.txt
export PIP_DISABLE_PIP_VERSION_CHECK := 1

# How much torture and fuzzing.
KILLS ?= 100
INPUTS ?= 10000

.PHONY: help demo test test-all test-readers torture fuzz verify calibrate soak docs lint format bench clean
help:
	@grep -hE '^[a-z-]+:.*##' $(MAKEFILE_LIST) | sed -E 's/:.*## /\t/' | expand -t 14

$(READY): pyproject.toml constraints.txt
	@echo "setting up $(VENV) (once; about two minutes)"
	@$(CHOOSE) $(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11) and "dlhmc needs Python 3.11 or newer: call make PYTHON=/path/to/python3.11")'
	@$(CHOOSE) $(PYTHON) -m venv $(VENV)
	@$(BIN)/pip install --quiet --editable '.[dev]'
	@touch $@

demo: $(READY)  ## HMC freezes, networks learn to tunnel (about a minute)
	@$(BIN)/dlhmc demo

# Statistical tests with XLA's own options, as users have them; the others with those of tests/conftest.py, to save time.
PYTEST := $(BIN)/pytest -n 2 --dist worksteal --durations=10
# Files that have some: collecting the others would take each worker longer than a test.
STATISTICAL = $(shell grep -rl --include='test_*.py' 'mark\.statistical' tests)

test: lint  ## lint, then the tests (PYTHON=python3.12: with another Python, here and everywhere)
	@XLA_FLAGS= $(PYTEST) -m "statistical and not slow" $(STATISTICAL)
	@$(PYTEST) -m "not statistical and not slow"

test-all: lint  ## all tests and those that are slow
	@XLA_FLAGS= $(PYTEST) -m statistical $(STATISTICAL)
	@$(PYTEST) -m "not statistical"

$(VENV)/.readers: $(READY)
	@$(BIN)/pip install --quiet --editable '.[dev,readers]'
	@touch $@

test-readers: $(VENV)/.readers  ## gauge files as another program reads them, which is installed
	@DLHMC_READERS=1 $(BIN)/pytest tests/readers

torture: $(READY)  ## kill -9 KILLS runs (or for MINUTES), resume, compare bit by bit
	@$(BIN)/python scripts/torture.py --kills $(KILLS) --minutes $(or $(MINUTES),inf) --seed $(or $(SEED),1)

fuzz: $(READY)  ## INPUTS mutated files for everything that loads one
	@$(BIN)/python scripts/fuzz.py --inputs $(INPUTS) --seed $(or $(SEED),1)

$(VENV)/.docs: $(READY)
	@$(BIN)/pip install --quiet --editable '.[dev,docs]'
	@touch $@

# Material for MkDocs is maintained until May 2027; Zensical, its successor, reads mkdocs.yml.
docs: $(VENV)/.docs  ## the documentation as a site in site/, notebooks executed
	@NO_MKDOCS_2_WARNING=1 $(BIN)/mkdocs build --strict

lint: $(READY)  ## style, security rules, formatting, types
	@$(BIN)/ruff check .
	@$(BIN)/ruff format --check .
	@$(BIN)/mypy

format: $(READY)  ## put the code into shape
	@$(BIN)/ruff check --fix .
	@$(BIN)/ruff format .

bench: $(READY)  ## speed against BlackJAX, NumPy and the machine's limits
	@$(BIN)/python -m benchmarks

soak: $(READY)  ## an hour of sampling (MINUTES=60): constant speed, memory and open files
	@$(BIN)/python scripts/soak.py --minutes $(or $(MINUTES),60) --out soak

verify: $(READY)  ## every sampler against exact results, new seeds (MINUTES=15, SEED= to repeat)
	@$(BIN)/python scripts/verify.py --minutes $(or $(MINUTES),15) $(if $(SEED),--seed $(SEED))

calibrate: $(READY)  ## errors of 960 short runs against exact values (SEED=2 for other numbers)
	@$(BIN)/python scripts/calibrate.py --seed $(or $(SEED),1)

clean:  ## remove the environment and caches
	rm -rf .venv .venv-* site .pytest_cache .mypy_cache .ruff_cache .hypothesis
