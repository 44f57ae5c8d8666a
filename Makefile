# make demo   the whole grid on the built-in corpus and backbone, in a fresh environment
# make test   the tests, in the same way
# make bench  speed against what else one would use; QUICK=1: the goals' cases, under 5 minutes
# make chaos  50 kills at random moments over a small grid (docs/robustness.md)
# make test-cluster  a grid on a Slurm of one node that it installs (docs/cluster.md); SHORT=1, DEMO=1
# make check  linters, formatters, type checker
# make pictures  docs/img anew, from the demo's figures
# make lock   write requirements.lock anew from the environment that `make test` made
#
# A second call reuses the environment. Another Python: make demo PYTHON=python3.12

PYTHON ?= python3
VENV ?= .venv
CORES ?= 2
BIN := $(VENV)/bin
PIP := $(BIN)/python -m pip install --quiet --disable-pip-version-check
INSTALL := $(PIP) -c requirements.lock
SOURCES := src tests benchmarks

.PHONY: demo test bench chaos test-cluster check pictures lock clean
.DEFAULT_GOAL := demo

demo: $(VENV)/.installed
	$(BIN)/snakemake --workflow-profile profiles/demo --cores $(CORES) all

test: $(VENV)/.installed-test
	$(BIN)/pytest -n $(CORES) --dist loadfile # what a file's tests share is made once

bench: $(VENV)/.installed-bench
	$(BIN)/python -m benchmarks $(if $(QUICK),--quick) $(BENCH)

chaos: $(VENV)/.installed-test
	PATH=$(CURDIR)/$(BIN):$$PATH PYTHONPATH=tests $(BIN)/python -m chaos

test-cluster: $(VENV)/.installed-slurm
	PATH=$(abspath $(BIN)):$$PATH PYTHONPATH=src:tests $(BIN)/python -m cluster $(if $(SHORT),--short) $(if $(DEMO),--demo)

check: $(VENV)/.installed-test
	$(BIN)/ruff check $(SOURCES)
	$(BIN)/ruff format --check $(SOURCES)
	$(BIN)/mypy
	$(BIN)/snakefmt --check Snakefile workflow
	$(BIN)/snakemake --lint

# Some images set it, and each of a hundred jobs would compile all that it imports.
export PYTHONDONTWRITEBYTECODE :=

# The plain torch first, at the version of the lock: an index that has a CPU build gives that one.
# Nothing is compiled ahead: jobs import a tenth of what is installed.
$(VENV)/.installed: pyproject.toml requirements.lock
	$(PYTHON) -m venv $(VENV)
	$(PIP) --no-compile $$(grep '^torch==' requirements.lock)
	$(INSTALL) --no-compile -e .
	touch $@

$(VENV)/.installed-test: $(VENV)/.installed
	$(INSTALL) -e '.[test]'
	touch $@

$(VENV)/.installed-bench: $(VENV)/.installed
	$(INSTALL) -e '.[bench]'
	touch $@

pictures: demo
	$(BIN)/python -m minbert.report.pictures results/demo docs/img

$(VENV)/.installed-slurm: $(VENV)/.installed-test
	$(INSTALL) -e '.[slurm]'
	touch $@

lock: $(VENV)/.installed-slurm $(VENV)/.installed-bench
	$(BIN)/python -m pip freeze --exclude-editable | sed 's/+cpu$$//' > requirements.lock

clean:
	rm -rf results/demo .snakemake
