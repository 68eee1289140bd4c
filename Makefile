# Every target makes what it needs: a virtual environment in $(VENV) and, once for each edit of pyproject.toml, the
# packages of one dependency group. An environment that is already there is used as it is.

PYTHON ?= python3
VENV ?= .venv
WORKERS ?= auto
TRIALS ?= 50
MINUTES ?= 5
PYTEST_ARGS ?=

PY := $(VENV)/bin/python
CODE := src $(wildcard tests examples scripts docs/conf.py)

.DEFAULT_GOAL := help
.NOTPARALLEL:
.PHONY: help demo test test-bench test-integrations test-faults test-minimum soak fuzz audit lint format docs figures clean

help: ## Show the targets
	@grep -E '^[a-z-]+:.*## ' $(MAKEFILE_LIST) | awk -F ':.*## ' '{ printf "  make %-17s %s\n", $$1, $$2 }'
	@echo
	@echo "  PYTHON=$(PYTHON) makes the environment, VENV=$(VENV) is where it lies."

demo: $(VENV)/.group-demo ## Tune a model from one TOML file; writes demo.html and demo.png. TRIALS=100 goes on to 100
	$(PY) -m boke.cli run examples/demo/study.toml --trials $(TRIALS)
	$(PY) -m boke.cli recommend examples/demo/study.toml
	$(PY) examples/demo/random_search.py $(TRIALS)
	$(PY) -m boke.cli report examples/demo/study.toml --out demo.html --png demo.png

test: $(VENV)/.group-test ## Run the tests; WORKERS=4 and PYTEST_ARGS="-k space" are understood
	$(PY) -m pytest -q -n $(WORKERS) --maxprocesses 8 $(PYTEST_ARGS)

test-bench: ## Lint and test the bench in an environment of its own, .venv-bench, with everything it compares with
	$(MAKE) -C bench test

test-integrations: ## Test the integrations with Ray, PostgreSQL, gRPC and the dashboard, in .venv-integrations
	$(MAKE) VENV=$(VENV)-integrations $(VENV)-integrations/.group-test-integrations
	$(VENV)-integrations/bin/python -m pytest -q -n 2 --dist loadfile tests/integrations tests/contract tests/test_examples.py $(PYTEST_ARGS)

test-faults: ## Do everything that can go wrong, for real, and print a table of what was seen; under 20 minutes
	$(MAKE) VENV=$(VENV)-integrations $(VENV)-integrations/.group-test-faults
	BOKE_FAULTS=all $(VENV)-integrations/bin/python -m pytest -q -n 2 --dist worksteal tests/faults $(PYTEST_ARGS)

soak: MINUTES = 10
soak: $(VENV)/.group-test ## Ten minutes of 8 threads and 4 processes on logs that are killed; MINUTES=1 is understood
	$(PY) scripts/soak.py --minutes $(MINUTES)

fuzz: ## Coverage-guided fuzzing of every reader, MINUTES=5 each, in .venv-fuzz (needs an atheris for this Python)
	$(MAKE) VENV=$(VENV)-fuzz $(VENV)-fuzz/.group-fuzz
	$(VENV)-fuzz/bin/python scripts/fuzz.py --minutes $(MINUTES)

test-minimum: ## Run the tests with the oldest versions of everything that pyproject.toml allows, in .venv-minimum
	$(MAKE) VENV=$(VENV)-minimum $(VENV)-minimum/.ready
	$(PYTHON) scripts/minimum.py > $(VENV)-minimum/minimum.txt
	$(VENV)-minimum/bin/python -m pip install -q --disable-pip-version-check -e ".[ray]" --group test -c $(VENV)-minimum/minimum.txt
	$(VENV)-minimum/bin/python -m pytest -q -n $(WORKERS) --maxprocesses 8 $(PYTEST_ARGS)

audit: $(VENV)/.group-audit ## Ask the public database for known weaknesses of what is installed (needs pypi.org)
	$(PY) scripts/audit.py

lint: $(VENV)/.group-lint ## Check style, formatting, types and the direction of imports
	$(PY) -m ruff check $(CODE)
	$(PY) -m ruff format --check $(CODE)
	$(PY) -m mypy --strict src
	$(PY) -c 'from importlinter.cli import lint_imports_command as lint; lint()'

format: $(VENV)/.group-lint ## Format the code and fix what can be fixed by machine
	$(PY) -m ruff check --fix-only $(CODE)
	$(PY) -m ruff format $(CODE)

docs: $(VENV)/.group-docs docs/images/iteration.png ## Build the site into docs/_build/html and run its examples
	$(PY) -m sphinx -q -W --keep-going -b html docs docs/_build/html
	$(PY) -m sphinx -q -W --keep-going -b doctest docs docs/_build/doctest
	@tail -n 6 docs/_build/doctest/output.txt
	@echo "The site is in docs/_build/html/index.html"

docs/images/iteration.png: # kept in the repository; drawn here only where it is missing
	$(MAKE) figures

figures: $(VENV)/.group-demo ## Draw the figures of the documentation into docs/images
	$(PY) examples/figures.py

clean: ## Remove caches, built pages and demo output; the environment stays
	rm -rf docs/_build build dist .pytest_cache .mypy_cache .ruff_cache .hypothesis .import_linter_cache demo.png demo.html quickstart.png examples/demo/*.db examples/demo/*-logs
	find src tests examples scripts docs -name __pycache__ -type d -prune -exec rm -rf {} + 2>/dev/null || true

# An environment that somebody else made, or whose making was interrupted, is completed rather than replaced.
$(VENV)/.ready:
	@$(PY) -m pip --version >/dev/null 2>&1 || { \
	    $(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' 2>/dev/null || { \
	        echo "boke needs Python 3.11 or newer; '$(PYTHON)' is $$($(PYTHON) --version 2>&1 | head -n 1)." >&2; \
	        echo "Name another one: make PYTHON=/path/to/python3.11 $(MAKECMDGOALS)" >&2; exit 1; }; \
	    $(PYTHON) -m venv $(VENV); }
	@$(PY) -m pip install -q --disable-pip-version-check --upgrade 'pip>=25.1'
	@touch $@

# Environments share the folder that the module is compiled in: one after the other.
$(VENV)/.group-%: pyproject.toml CMakeLists.txt $(wildcard src/boke/_sums/*) | $(VENV)/.ready
	@mkdir -p build
	$(shell command -v flock && echo build/.lock) $(PY) -m pip install -q --disable-pip-version-check -e . --group $*
	@$(PY) -c 'from boke.compiled import NATIVE; NATIVE or print("boke is slower here than it could be: its sums were not compiled. Is there a C++ compiler?")'
	@touch $@
