"""Fixtures of the loader's tests."""

from tests.spark import spark  # noqa: F401  pytest finds the fixture by its name
