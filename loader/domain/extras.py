"""Extras of the wheel: packages that only some sources need, and the refusal where one is not installed.

``make setup`` installs all of them in a checkout. pyproject.toml has their versions.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass

from loader.contract.refusals import Refusal


@dataclass(frozen=True)
class Extra:
    """Extra of the wheel: the packages that are imported for ``purpose``."""

    purpose: str
    imports: tuple[str, ...]


EXTRAS = {
    "avro": Extra("samples of Avro files", ("fastavro",)),
    "duckdb": Extra("queries by DuckDB", ("duckdb", "duckdb_extension_delta")),
    "excel": Extra("workbooks", ("python_calamine",)),
    "fivetran": Extra("Fivetran destinations", ("grpc", "grpc_tools", "google", "cryptography")),
    "kafka": Extra("Kafka topics", ("confluent_kafka",)),
    "mariadb": Extra("tables and samples of MariaDB and MySQL", ("pymysql",)),
    "rest": Extra("REST APIs", ("dlt",)),
}


@contextmanager
def packages_of(name: str) -> Iterator[None]:
    """Raise Refusal PACKAGE_MISSING if an import in this block fails since the extra is not installed."""
    try:
        yield
    except ModuleNotFoundError as error:
        package = (error.name or "").partition(".")[0]
        if package not in EXTRAS[name].imports:
            raise
        raise Refusal(
            "PACKAGE_MISSING",
            f"{EXTRAS[name].purpose} need the package {package}, which is not installed",
            hint=f"Run pip install 'elevata[{name}]' where web and worker run, then restart both.",
        ) from error
