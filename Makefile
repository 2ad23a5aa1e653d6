# Every target sets up what it needs in .venv; a second run finds it done.
.DEFAULT_GOAL := help
.PHONY: help up test check fmt openapi clean lock

PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
UV := $(shell command -v uv 2>/dev/null)
INSTALL := $(if $(UV),$(UV) pip install --quiet --python $(BIN)/python,$(BIN)/python -m pip install --quiet --disable-pip-version-check)

help:  ## this list
	@grep -hE '^[a-z-]+:.*##' $(MAKEFILE_LIST) | sed -E 's/:.*## /\t/' | expand -t 14

up: $(VENV)/.runtime  ## run the whole pipeline here, with live data
	@$(BIN)/kizami up

test: $(VENV)/.dev  ## run the tests
	@$(BIN)/python -m pytest

check: $(VENV)/.dev  ## ruff, strict mypy, and the house's own rules
	@$(BIN)/ruff check .
	@$(BIN)/ruff format --check .
	@$(BIN)/mypy
	@$(BIN)/python -m pytest tests/unit/test_house.py

fmt: $(VENV)/.dev  ## put the code into its one format
	@$(BIN)/ruff check --fix .
	@$(BIN)/ruff format .

openapi: $(VENV)/.dev  ## write the openapi.json that the mock API serves from docs/openapi.yaml
	@$(BIN)/python -c 'import json, yaml; json.dump(yaml.safe_load(open("docs/openapi.yaml")), \
	  open("src/kizami/mock_api/openapi.json", "w"), indent=1)'

clean:  ## remove everything that make has made
	rm -rf $(VENV) .tools build dist .pytest_cache .mypy_cache .ruff_cache .hypothesis

# The pins: `make lock` writes them again from pyproject.toml and requirements/*.in (needs uv).
lock:
	@test -n "$(UV)" || { echo "make lock needs uv: pip install uv" >&2; exit 3; }
	cd requirements && for set in runtime dev; do \
	  $(UV) pip compile --quiet --universal --python-version 3.11 --generate-hashes \
	    --no-emit-index-url --no-header ../pyproject.toml runtime.in $$( [ $$set = dev ] && echo dev.in ) -o $$set.txt; \
	done

$(VENV)/bin/python:
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || \
	  { echo "kizami needs Python 3.11 or newer; set PYTHON=/path/to/python3.11" >&2; exit 3; }
	@$(PYTHON) -m venv $(VENV)

$(VENV)/.runtime: requirements/runtime.txt pyproject.toml | $(VENV)/bin/python
	@echo "Installing kizami into $(VENV) …" >&2
	@$(INSTALL) --require-hashes -r requirements/runtime.txt
	@$(INSTALL) --no-deps --no-build-isolation -e .
	@touch $@

$(VENV)/.dev: requirements/dev.txt $(VENV)/.runtime
	@echo "Installing the test tools into $(VENV) …" >&2
	@$(INSTALL) --require-hashes -r requirements/dev.txt
	@touch $@
