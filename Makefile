# make demo   everything on this machine: http://127.0.0.1:8000 (PORT=8001 make demo for another port)
# make test   the whole test suite
# make check  code checks and the test suite
# make lock   writes requirements*.txt anew (needs uv)

PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin

.DEFAULT_GOAL := demo
.PHONY: demo test check check-code lock

demo: $(VENV)/.runtime
	@exec $(BIN)/python manage.py demo

test: $(VENV)/.development
	@$(BIN)/pytest -n auto --dist loadfile --no-loadscope-reorder

check: check-code test

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

LOCK = uv pip compile --universal --python-version 3.11 --generate-hashes --no-header

lock:
	$(LOCK) requirements.in -o requirements.txt
	$(LOCK) requirements-dev.in -o requirements-dev.txt
