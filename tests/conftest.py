"""What every test may use. The servers are started earlier, by tests/services/plugin.py."""

from collections.abc import Generator

import pytest
from hypothesis import settings

from tests.audit import let_flush_pass
from tests.services.browser import OUTCOME, browser, page

__all__ = ["browser", "page"]

# A shared machine is sometimes slow; how long an example takes says nothing about being right.
settings.register_profile("elevata", deadline=None, print_blob=True)
settings.load_profile("elevata")


@pytest.fixture(autouse=True, scope="session")
def flush_passes_append_only_tables() -> Generator[None]:
    with pytest.MonkeyPatch.context() as patch:
        let_flush_pass(patch)
        yield


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(item: pytest.Item) -> Generator[None, pytest.TestReport, pytest.TestReport]:
    """Let fixtures see how their test ended."""
    report = yield
    item.stash.setdefault(OUTCOME, {})[report.when] = report
    return report
