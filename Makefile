# Commands to type. The work is done by elevata/bootstrap (set-up), manage.py and pytest.

PYTHON ?= python3
RUN := .venv/bin/python
BOOTSTRAP := $(PYTHON) -m elevata.bootstrap
# Set-up puts Node into the virtual environment of a machine that has none.
NPM := PATH="$(CURDIR)/.venv/bin:$$PATH" npm --silent run
# A cell's text stands where every line break shows, so its template ends without one.
TEMPLATES := find templates -name '*.html' ! -name cell.html -exec .venv/bin/djade --target-version 5.2 --check {} +
# Two processes, each with servers and a Spark session of its own; a file's tests stay together, and
# tests/order.py says which file comes first.
SIDE_BY_SIDE := -n 2 --dist loadfile --no-loadscope-reorder
FAST := not spark and not browser and not services and not servers and not nightly and not embedded_only and not database

.DEFAULT_GOAL := help
.PHONY: help setup demo serve test test-services test-fast test-nightly setup-tests bench lint audit openapi pictures clean
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
	@$(NPM) lint
	@$(NPM) test
	@$(RUN) -m tests.repository.code_audit
	@embedded=0; ELEVATA_TEST_SERVICES=embedded $(RUN) -m pytest $(SIDE_BY_SIDE) -m "(embedded or embedded_only) and not services and not servers and not nightly" || embedded=$$?; \
	$(RUN) -m pytest $(SIDE_BY_SIDE) && exit $$embedded

test-services: setup-tests ## tests of whole installations and of further servers: a Spark cluster, a metastore, an object store, MariaDB, Kafka
	@$(BOOTSTRAP) setup --with-object-store
	@$(RUN) -m pytest $(SIDE_BY_SIDE) -m "servers and not nightly"

test-fast: ## pure rules: no database, no servers, no Spark, no browser
	@$(BOOTSTRAP) setup --with-tests
	@$(NPM) test
	@ELEVATA_TEST_SERVICES=none $(RUN) -m pytest $(SIDE_BY_SIDE) -m "$(FAST)"

test-nightly: setup-tests ## every test, the long ones too
	@$(BOOTSTRAP) setup --with-object-store
	@$(RUN) -m ruff check .
	@$(NPM) lint
	@$(NPM) test
	@embedded=0; ELEVATA_EXAMPLES=night ELEVATA_FOUR_EYES_EXAMPLES=3000 ELEVATA_TEST_SERVICES=embedded $(RUN) -m pytest $(SIDE_BY_SIDE) -m "(embedded or embedded_only) and not services and not servers" || embedded=$$?; \
	ELEVATA_EXAMPLES=night ELEVATA_SPARK_EXAMPLES=8 ELEVATA_API_EXAMPLES=10 ELEVATA_DISTURBED_EXAMPLES=60 $(RUN) -m pytest $(SIDE_BY_SIDE) -m "not embedded_only" && exit $$embedded

setup-tests:
	@$(BOOTSTRAP) setup --with-tests --with-servers

bench: setup ## all measures, peers side by side; writes bench/results.json (over an hour)
	@$(RUN) -m bench.processes.environment
	@$(RUN) -m bench --full

lint: ## style of code, scripts and templates, and the import rules between the apps
	@$(BOOTSTRAP) setup --with-tests
	@$(RUN) -m ruff check .
	@$(NPM) lint
	@$(TEMPLATES)
	@.venv/bin/lint-imports

openapi: setup ## the API's description, docs/openapi.yaml, made anew
	@$(RUN) manage.py spectacular --validate --fail-on-warn --file docs/openapi.yaml

audit: ## known faults of packages (pip-audit) and of our code (bandit); exceptions are in pyproject.toml
	@$(BOOTSTRAP) setup --with-tests
	@$(RUN) -m tests.repository.code_audit

pictures: ## the docs' pictures, taken from the demo's data (make demo first)
	@$(BOOTSTRAP) setup --with-tests --with-servers
	@$(RUN) -m tests.e2e.pictures

clean: ## remove what set-up and tests made; data folders stay
	rm -rf .venv build static/vendor staticfiles node_modules tests/artifacts
	rm -rf .pytest_cache .ruff_cache .hypothesis .import_linter_cache
	find . -name __pycache__ -type d -prune -exec rm -rf {} +
