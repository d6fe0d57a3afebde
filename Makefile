# make demo: set up, start, open the preview.  make test: set up, run every test.
# All set-up happens in .venv; PYTHON chooses the interpreter (3.11 or newer).
VENV ?= .venv
BIN := $(VENV)/bin
ARGS ?=

.PHONY: demo test check install install-dev clean

demo: install
	$(BIN)/onbeat serve --open $(ARGS)

install: $(VENV)/.installed

install-dev: $(VENV)/.installed-dev

$(VENV)/.installed: pyproject.toml constraints.txt .ci/setup
	@VENV=$(VENV) bash .ci/setup

$(VENV)/.installed-dev: pyproject.toml constraints.txt .ci/setup
	@VENV=$(VENV) bash .ci/setup dev

test: install-dev
	@bash .ci/clients
	$(BIN)/python -m pytest $(ARGS)

check: install-dev
	@VENV=$(VENV) bash .ci/check

clean:
	rm -rf $(VENV) build .pkg/*.egg-info .mypy_cache .ruff_cache .pytest_cache .import_linter_cache
