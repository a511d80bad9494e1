"""Fixtures of the tests of REST sources."""

from collections.abc import Iterator

import pytest

from tests.loader.rest.api_server import ApiServer, api_server


@pytest.fixture
def api() -> Iterator[ApiServer]:
    with api_server() as server:
        yield server
