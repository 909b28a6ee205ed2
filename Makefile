# Needs Python 3.11 to 3.13 and pip. Everything is installed into .venv, once.
PYTHON ?= python3
BIN := .venv/bin
READY := .venv/.ready
LOCK := .ci/constraints.txt

.PHONY: demo test check

demo: $(READY)  ## A whole optimization without an LLM and without a GPU.
	$(BIN)/egg-mcp demo

test: $(READY)  ## Every test that this machine can run.
	$(BIN)/python -m pytest -q

check: $(READY)  ## What must hold before a commit, besides the tests.
	$(BIN)/ruff check
	$(BIN)/ruff format --check
	$(BIN)/pyright
	$(BIN)/lint-imports
	$(BIN)/codespell

# The stamp makes the second run fast and free of the network.
$(READY): pyproject.toml $(LOCK)
	@test -x $(BIN)/python || $(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11) and \
		"egg-mcp needs Python 3.11 or newer; name one: make PYTHON=python3.11")'
	test -x $(BIN)/python || $(PYTHON) -m venv .venv
	$(BIN)/python -m pip install -q -c $(LOCK) pip setuptools
	$(BIN)/python -m pip install -q -c $(LOCK) --no-build-isolation -e '.[torch]' --group dev
	touch $@
