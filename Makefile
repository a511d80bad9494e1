# Commands to type. The work is done by elevata/bootstrap (set-up), manage.py and pytest.

PYTHON ?= python3
RUN := .venv/bin/python
BOOTSTRAP := $(PYTHON) -m elevata.bootstrap
# Set-up puts Node into the virtual environment of a machine that has none.
NPM := PATH="$(CURDIR)/.venv/bin:$$PATH" npm --silent run
# A cell's text stands where every line break shows, so its template ends without one.
TEMPLATES := find templates -name '*.html' ! -name cell.html -exec .venv/bin/djade --target-version 5.2 --check {} +
# The checker imports the settings, which make a data folder; it gets one of its own.
TYPES := ELEVATA_DATA_DIR="$(CURDIR)/build/types" $(RUN) -m mypy
# Parts of the suite, their passes and processes: tests/suite.
SUITE := $(RUN) -m tests.suite.run
FAST := not spark and not browser and not services and not servers and not nightly and not embedded_only and not database

COVERED := not spark and not browser and not services and not servers and not nightly

.DEFAULT_GOAL := help
.PHONY: help setup demo serve test test-full test-rest test-changed test-services test-fast test-nightly coverage wheel setup-tests check bench lint audit openapi pictures clean
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

test: setup-tests check ## every rule at its cheapest level, every real component at least once
	@$(SUITE) test

test-full: setup-tests check ## everything that runs by day: make test, its variants, and tests of further servers
	@$(BOOTSTRAP) setup --with-object-store
	@$(SUITE) full

test-rest: setup-tests ## what make test-full runs besides make test
	@$(BOOTSTRAP) setup --with-object-store
	@$(SUITE) rest

test-changed: setup-tests ## tests that reach the modules changed since the last commit, by imports
	@$(SUITE) changed

test-services: setup-tests ## tests of whole installations and of further servers: a Spark cluster, a metastore, an object store, MariaDB, Kafka
	@$(BOOTSTRAP) setup --with-object-store
	@$(SUITE) services

test-fast: ## pure rules: no database, no servers, no Spark, no browser
	@$(BOOTSTRAP) setup --with-tests
	@$(NPM) test
	@ELEVATA_TEST_SERVICES=none $(RUN) -m pytest -n 2 --dist loadfile --no-loadscope-reorder -m "$(FAST)"

test-nightly: setup-tests check ## every test, the long ones too
	@$(BOOTSTRAP) setup --with-object-store
	@$(SUITE) nightly

coverage: ## branch coverage of the pure tests and those with a database
	@$(BOOTSTRAP) setup --with-tests
	@$(RUN) -m coverage erase
	@ELEVATA_TEST_SERVICES=embedded $(RUN) -m coverage run -m pytest -p no:cacheprovider -m "$(COVERED)"
	@$(RUN) -m coverage combine --quiet
	@$(RUN) -m coverage report --skip-covered --skip-empty

wheel: ## the wheel of this checkout with its front-end files, in dist
	@$(BOOTSTRAP) setup --with-tests
	@$(RUN) -m hatchling build -t wheel

check:
	@$(RUN) -m ruff check .
	@$(NPM) lint
	@$(NPM) test
	@$(RUN) -m tests.repository.code_audit

setup-tests:
	@$(BOOTSTRAP) setup --with-tests --with-servers

bench: setup ## history step beside its peers; writes bench/results.json (over an hour)
	@$(RUN) -m bench.processes.environment
	@$(RUN) -m bench --full

lint: ## style of code, scripts and templates, types, and the import rules between the apps
	@$(BOOTSTRAP) setup --with-tests
	@$(RUN) -m ruff check .
	@$(RUN) -m ruff format --quiet --check .
	@$(TYPES)
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
	rm -rf .venv build dist static/vendor staticfiles node_modules tests/artifacts
	rm -rf .coverage .coverage.* .pytest_cache .ruff_cache .mypy_cache .hypothesis .import_linter_cache
	find . -name __pycache__ -type d -prune -exec rm -rf {} +
