"""Catalog names of tables, compared by location.

The catalog only publishes names; the Delta logs are authoritative. So a name is dropped only from the table
that loses it, and a name of another location is replaced by the table whose log has that name.
"""

from collections.abc import Iterable

from pyspark.sql import SparkSession

from architecture.domain.steps.rendering import CATALOG, Statement, catalog_name, location_of
from architecture.domain.steps.step import CREATE_TABLE, DROP_TABLE, PUBLISH_TABLE, RENAME_TABLE, Step, becomes

_PUBLISHING = (CREATE_TABLE, RENAME_TABLE, PUBLISH_TABLE)


def publish_step(
    session: SparkSession, step: Step, statements: Iterable[Statement], warehouse: str, prefix: str = ""
) -> None:
    """Run a step's catalog statements, which can be repeated at any time."""
    texts = [statement.sql for statement in statements if statement.part == CATALOG]
    location = location_of(step.table.key, warehouse)
    if step.op in (RENAME_TABLE, DROP_TABLE):
        old = catalog_name(step.from_name or step.dataset, prefix)
        drop, *texts = texts
        if held_at(session, old, location):
            session.sql(drop)
    if step.op in _PUBLISHING:
        shape = becomes(step)
        assert shape is not None
        make_room(session, catalog_name(shape.qualified_name, prefix), location)
    for text in texts:
        session.sql(text)


def make_room(session: SparkSession, name: str, location: str) -> None:
    """Drop the catalog name if it belongs to a table at another location."""
    if session.catalog.tableExists(name) and not held_at(session, name, location):
        session.sql(f"DROP TABLE IF EXISTS {name}")


def held_at(session: SparkSession, name: str, location: str) -> bool:
    """Return True if the catalog has the name for the table at this location."""
    if not session.catalog.tableExists(name):
        return False
    described = session.sql(f"DESCRIBE TABLE EXTENDED {name}").where("col_name = 'Location'").collect()
    return any(_path(session, row.data_type) == _path(session, location) for row in described)


def _path(session: SparkSession, location: str) -> str:
    return session._jvm.org.apache.hadoop.fs.Path(location).toUri().getPath()
