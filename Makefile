# What a person types. The work is done by elevata/bootstrap (set-up), manage.py and pytest.

PYTHON ?= python3
RUN := .venv/bin/python
BOOTSTRAP := $(PYTHON) -m elevata.bootstrap
# Two processes, each with servers and a Spark session of its own; a file's tests stay together, and
# tests/ordering.py says which file comes first.
SIDE_BY_SIDE := -n 2 --dist loadfile --no-loadscope-reorder
FAST := not spark and not browser and not services and not nightly and not embedded_only

.DEFAULT_GOAL := help
.PHONY: help setup demo serve test test-fast test-nightly setup-tests bench lint audit openapi pictures clean
# Two set-ups or two test runs side by side would only get in each other's way.
.NOTPARALLEL:

help: ## show this list
	@awk 'BEGIN {FS = ":.*## "} /^[a-z-]+:.*## / {printf "  make %-13s %s\n", $$1, $$2}' $(MAKEFILE_LIST)

setup: ## environment, packages, jars, front-end files, database; quick when nothing changed
	@$(BOOTSTRAP) setup

demo: setup ## load real data and show what it did
	@$(RUN) manage.py demo

serve: setup ## web, worker and scheduler on the embedded defaults; Ctrl-C stops all
	@$(RUN) manage.py serve

test: setup-tests ## every test: embedded stores first, then all on PostgreSQL and Redis
	@$(RUN) -m ruff check .
	@$(RUN) -m tests.auditing
	@embedded=0; ELEVATA_TEST_SERVICES=embedded $(RUN) -m pytest $(SIDE_BY_SIDE) -m "(embedded or embedded_only) and not services and not nightly" || embedded=$$?; \
	$(RUN) -m pytest $(SIDE_BY_SIDE) && exit $$embedded

test-fast: ## pure rules and plain Django only, no servers, no Spark, no browser
	@$(BOOTSTRAP) setup --with-tests
	@ELEVATA_TEST_SERVICES=none $(RUN) -m pytest -m "$(FAST)"

test-nightly: setup-tests ## every test, the long ones too
	@$(RUN) -m ruff check .
	@embedded=0; ELEVATA_FOUR_EYES_EXAMPLES=3000 ELEVATA_TEST_SERVICES=embedded $(RUN) -m pytest $(SIDE_BY_SIDE) -m "(embedded or embedded_only) and not services" || embedded=$$?; \
	ELEVATA_SPARK_EXAMPLES=8 ELEVATA_API_EXAMPLES=10 ELEVATA_DISTURBED_EXAMPLES=60 $(RUN) -m pytest $(SIDE_BY_SIDE) -m "not embedded_only" && exit $$embedded

setup-tests:
	@$(BOOTSTRAP) setup --with-tests --with-servers

bench: setup ## all measures, peers side by side; writes bench/results.json (over an hour)
	@$(RUN) -m bench.environment
	@$(RUN) -m bench --full

lint: ## style and the borders between the rooms
	@$(BOOTSTRAP) setup --with-tests
	@$(RUN) -m ruff check .
	@.venv/bin/lint-imports

openapi: setup ## the API's description, docs/openapi.yaml, made anew
	@$(RUN) manage.py spectacular --validate --fail-on-warn --file docs/openapi.yaml

audit: ## known faults of packages (pip-audit) and of our code (bandit); exceptions are in pyproject.toml
	@$(BOOTSTRAP) setup --with-tests
	@$(RUN) -m tests.auditing

pictures: ## the docs' pictures, taken from the demo's data (make demo first)
	@$(BOOTSTRAP) setup --with-tests --with-servers
	@$(RUN) -m tests.e2e.pictures

clean: ## remove what set-up and tests made; data folders stay
	rm -rf .venv build static/vendor staticfiles node_modules tests/artifacts
	rm -rf .pytest_cache .ruff_cache .hypothesis .import_linter_cache
	find . -name __pycache__ -type d -prune -exec rm -rf {} +
