"""Pytest plugin, loaded by name before the others: settings must find the servers running.

A conftest would be too late: pytest-django reads the settings before any conftest is imported.
"""

import os
from collections.abc import Generator

import pytest

from tests.services.process import ServerProblem
from tests.services.session import Session, mode

SESSION = pytest.StashKey[Session]()
DATABASE = {"db", "transactional_db", "live_server", "django_db_setup"}


@pytest.hookimpl(wrapper=True, tryfirst=True)
def pytest_load_initial_conftests(early_config: pytest.Config) -> Generator[None, None, None]:
    """Start the session; a wrapper, so that it runs before the hooks of all other plugins."""
    known = early_config.known_args_namespace
    if not (known.help or known.version):
        session = Session()
        early_config.stash[SESSION] = session
        try:
            session.start(with_servers=not _only_hands_out(early_config))
        except ServerProblem as problem:
            session.stop()
            raise pytest.UsageError(str(problem)) from None
    return (yield)


def _only_hands_out(config: pytest.Config) -> bool:
    """Return True if this process distributes its tests to others (``-n 2``), each of which has its own servers."""
    return bool(getattr(config.known_args_namespace, "numprocesses", None)) and "PYTEST_XDIST_WORKER" not in os.environ


def pytest_itemcollected(item: pytest.Item) -> None:
    """Mark a test that uses the database, by its mark or by a fixture."""
    if item.get_closest_marker("django_db") or DATABASE & set(getattr(item, "fixturenames", ())):
        item.add_marker("database")


def pytest_report_header() -> str:
    """Return the mode of the services for the report's header."""
    return f"services: {mode()}"


@pytest.hookimpl(trylast=True)
def pytest_unconfigure(config: pytest.Config) -> None:
    """Stop the session; ``atexit`` does it if pytest ends before."""
    session = config.stash.get(SESSION, None)
    if session is not None:
        session.stop()
