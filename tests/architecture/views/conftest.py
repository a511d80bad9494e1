"""Fixtures of the pages of architecture control, with a world whose customers are built."""

from tests.fixtures.warehouse import renamed, world  # noqa: F401  nearer than those of the services' tests
