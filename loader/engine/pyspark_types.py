"""Typed access to what pyspark declares as optional but always has here."""

from typing import Any

from pyspark.sql import Row, SparkSession


def jvm_of(session: SparkSession) -> Any:
    """Return the JVM of a session. Any: py4j finds classes and methods by their names."""
    return session._jvm


def gateway_of(session: SparkSession) -> Any:
    """Return the gateway to the JVM of a session. Any: py4j has no types."""
    return session.sparkContext._gateway


def row_of(row: Row | None) -> Row:
    """Return the first row of a frame that has one, such as an aggregation without groups."""
    assert row is not None
    return row
