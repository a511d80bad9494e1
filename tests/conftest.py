"""Shared fixtures. The servers are started earlier, by tests/services/plugin.py."""

import os
from collections.abc import Generator
from typing import Any

import pytest
from hypothesis import settings

from tests.database.cleanup import end_other_sessions, replace_flush
from tests.services.browser import OUTCOME, browser, page

__all__ = ["browser", "page"]

pytest_plugins = [
    "tests.fixtures.jobs",
    "tests.fixtures.live_server",
    "tests.fixtures.outside_servers",
    "tests.fixtures.source_database",
    "tests.fixtures.spark",
    "tests.fixtures.static_files",
    "tests.fixtures.users",
    "tests.fixtures.warehouse",
]

# A shared machine is sometimes slow, so the duration of an example is no failure.
# By day every run tries the same examples, so that a failure is caused by a change; by night new ones are generated.
settings.register_profile("day", deadline=None, print_blob=True, derandomize=True)
settings.register_profile("night", deadline=None, print_blob=True)
settings.load_profile(os.environ.get("ELEVATA_EXAMPLES", "day"))


@pytest.fixture(autouse=True, scope="session")
def committed_rows_go_quickly() -> Generator[None]:
    with pytest.MonkeyPatch.context() as patch:
        replace_flush(patch)
        yield


@pytest.fixture(scope="session")
def django_db_setup(django_db_setup: None, django_db_blocker: Any) -> Generator[None]:
    """End leftover sessions before the test database is dropped: a thread keeps its own until it is collected."""
    yield
    with django_db_blocker.unblock():
        end_other_sessions()


@pytest.fixture(autouse=True)
def no_outage_before(monkeypatch: pytest.MonkeyPatch) -> None:
    """Reset an outage or a set clock that an earlier test simulated."""
    monkeypatch.setattr("elevata.core.database._outage_at", float("-inf"))
    monkeypatch.setattr("elevata.core.database._ahead", None)


def pytest_make_parametrize_id(val: object) -> str | None:
    """Name bytes by their length: packed files hold the time, and every process must collect the same names."""
    return f"{len(val)}-bytes" if isinstance(val, bytes) else None


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(item: pytest.Item) -> Generator[None, pytest.TestReport, pytest.TestReport]:
    """Store the test's reports, so that fixtures can read its outcome."""
    report = yield
    item.stash.setdefault(OUTCOME, {})[report.when] = report
    return report
