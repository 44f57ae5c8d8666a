# make demo   the whole grid on the built-in corpus and backbone, in a fresh environment
# make test   the tests, in the same environment
# make bench  speed against the alternatives; QUICK=1: the cases with goals, under 5 minutes
# make study  the study's tables, figures and report from its bundles, without training (study/)
# make study-train ROW=hybrid-bert/3-bert SEED=1  train a row of it anew and compare
# make study-page  its tables, docs/study.md and pictures, after another bundle has come
# make chaos  50 kills at random moments over a small grid (docs/pipeline.md)
# make audit  100 random small changes of the code, none of which may leave a result stale
#             (docs/rebuilding.md); MUTANTS=30, SEED=1
# make test-cluster  a grid on a one-node Slurm that it installs (docs/cluster.md); SHORT=1
# make check  linters, formatters, type checker
# make pictures  remake the pictures in docs/img from the demo's figures
# make lock   rewrite requirements.lock from the environment of `make test`
#
# A second call reuses the environment. A different Python: make demo PYTHON=python3.12

PYTHON ?= python3
VENV ?= .venv
CORES ?= 2
BIN := $(VENV)/bin
PIP := $(BIN)/python -m pip install --quiet --disable-pip-version-check --no-compile
INSTALL := $(PIP) -c requirements.lock
SOURCES := src tests benchmarks study workflow

.PHONY: demo test bench study study-tables study-runs study-train row-given study-page chaos audit test-cluster check pictures lock clean
.DEFAULT_GOAL := demo

demo: $(VENV)/.installed
	$(BIN)/snakemake all --cores $(CORES) --configfile workflow/overlays/demo.yaml

test: $(VENV)/.installed-test
	$(BIN)/pytest -n $(CORES) --dist loadfile --no-loadscope-reorder # a process a file, long files first

bench: $(VENV)/.installed-bench
	$(BIN)/python -m benchmarks $(if $(QUICK),--quick) $(BENCH)

CONFIGURED := --configfile workflow/overlays/minilm.yaml study/study.yaml
STUDY := --cores $(CORES) $(CONFIGURED)

study: study-tables
	$(BIN)/python study/tables.py compare
	@echo "The tables are those of study/tables. Open results/study/report.html"

study-tables: study-runs
	$(BIN)/snakemake all $(STUDY)

# Other code than theirs is accepted as workflow/accepted.yaml says.
study-runs: $(VENV)/.installed
	for bundle in study/seed-*.zip; do \
		$(BIN)/minbert unbundle $$bundle --results results/study || exit; done
	$(BIN)/minbert adopt --apply $(CONFIGURED)

study-page: study-tables $(VENV)/.installed-test
	$(BIN)/python study/tables.py copy
	cd tests && $(abspath $(BIN))/python -m pages.study && $(abspath $(BIN))/python -m pages.pictures study

# The study's own scores of the row, then the row anew, then both compared.
study-train: row-given study-runs
	$(BIN)/snakemake all $(STUDY) --config only=$(ROW)
	$(BIN)/snakemake all $(STUDY) --config results=results/again only=$(ROW) seeds=[$(or $(SEED),1)]
	$(BIN)/python study/again.py results/again results/study $(ROW)

row-given:
	$(if $(ROW),,$(error give a row: make study-train ROW=hybrid-bert/3-bert))

chaos: $(VENV)/.installed-test
	PATH=$(CURDIR)/$(BIN):$$PATH PYTHONPATH=tests $(BIN)/python -m chaos

audit: $(VENV)/.installed-test
	PYTHONPATH=tests $(BIN)/python -m audit --mutants $(or $(MUTANTS),100) --seed $(or $(SEED),0)

test-cluster: $(VENV)/.installed-slurm
	PATH=$(abspath $(BIN)):$$PATH PYTHONPATH=src:tests $(BIN)/python -m cluster $(if $(SHORT),--short)

check: $(VENV)/.installed-test
	$(BIN)/ruff check $(SOURCES)
	$(BIN)/ruff format --check $(SOURCES)
	$(BIN)/mypy
	$(BIN)/lint-imports
	$(BIN)/snakefmt --check Snakefile workflow
	$(BIN)/snakemake --lint

# If an image sets this, each of a hundred jobs would compile everything that it imports.
export PYTHONDONTWRITEBYTECODE :=

# torch first, at the locked version without a suffix: an index of CPU builds then provides one.
# No compilation ahead of time: jobs import a tenth of what is installed.
$(VENV)/.installed: pyproject.toml requirements.lock
	$(PYTHON) -m venv $(VENV)
	$(PIP) $$(grep '^torch==' requirements.lock)
	$(INSTALL) -e .
	touch $@

$(VENV)/.installed-test: $(VENV)/.installed
	$(INSTALL) -e '.[test]'
	touch $@

$(VENV)/.installed-bench: $(VENV)/.installed
	$(INSTALL) -e '.[bench]'
	touch $@

pictures: demo
	PYTHONPATH=tests $(BIN)/python -m pages.pictures demo

$(VENV)/.installed-slurm: $(VENV)/.installed-test
	$(INSTALL) -e '.[slurm]'
	touch $@

lock: $(VENV)/.installed-slurm $(VENV)/.installed-bench
	$(BIN)/python -m pip freeze --exclude-editable | sed 's/+cpu$$//' > requirements.lock

clean:
	rm -rf results/demo .snakemake
