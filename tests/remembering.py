"""What a fixture writes, worked out by the services once a session and then put back as rows.

Describing a small warehouse and carrying a report through takes the services longer than most tests take that
start from it. So the first test has it done, and what was written then is remembered. It is put back only over
rows that are the same as they were before, to the last one. Anywhere else it is worked out anew, and that is
remembered instead.
"""

from collections.abc import Callable, Collection
from copy import deepcopy
from dataclasses import dataclass
from typing import Any

from django.apps import apps
from django.core.cache import cache
from django.core.management.color import no_style
from django.db import connection, transaction

from metadata.services import chain, recorded_heads
from tests.emptying import all_tables, columns_of, rows_of, tables_with_rows


@dataclass(frozen=True)
class Remembered:
    """The rows that were there before, those that came, and what the fixture handed to its test."""

    before: dict[str, list[tuple]]
    added: dict[str, list[tuple]]
    columns: dict[str, list[str]]
    made: Any


_REMEMBERED: dict[str, Remembered] = {}


def remembered(name: str, make: Callable[[], Any]) -> Any:
    """What ``make`` makes, and its rows; ``name`` says which. It may only add rows, and hand over what can be
    copied."""
    before = _all_rows()
    known = _REMEMBERED.get(name)
    if known is not None and known.before == before:
        # Foreign keys are checked when the transaction ends, so the order of the tables does not matter.
        with transaction.atomic():
            for table, rows in known.added.items():
                _insert(table, known.columns[table], rows)
            _go_on_after(known.added)
        if chain.head().sequence:
            recorded_heads.record(chain.head(), begins=True)  # as sealing these rows did
        cache.clear()  # what another test worked out from rows of the same times
        return deepcopy(known.made)
    made = make()
    added = _added(before, _all_rows())
    if added is not None:
        columns = {table: columns_of(table) for table in added}
        _REMEMBERED[name] = Remembered(before, added, columns, deepcopy(made))
    return made


def _all_rows() -> dict[str, list[tuple]]:
    return {table: rows_of(table) for table in tables_with_rows(all_tables())}


def _added(before: dict[str, list[tuple]], after: dict[str, list[tuple]]) -> dict[str, list[tuple]] | None:
    """The rows that came; None if others did not stay as they were."""
    added = {}
    for table in before.keys() | after.keys():
        old, new = before.get(table, []), after.get(table, [])
        came = [row for row in new if row not in old]
        if len(came) + len(old) != len(new):
            return None
        if came:
            added[table] = came
    return added


def _insert(table: str, columns: list[str], rows: list[tuple]) -> None:
    # By name: a table that was made anew since, as SQLite does to alter one, may have its columns in another order.
    names, places = ", ".join(f'"{column}"' for column in columns), ", ".join(["%s"] * len(columns))
    with connection.cursor() as cursor:
        cursor.executemany(f'INSERT INTO "{table}" ({names}) VALUES ({places})', rows)


def _go_on_after(tables: Collection[str]) -> None:
    """New rows get numbers of their own: a sequence may have begun anew since the rows were made."""
    models = [model for model in apps.get_models(include_auto_created=True) if model._meta.db_table in tables]
    with connection.cursor() as cursor:
        for statement in connection.ops.sequence_reset_sql(no_style(), models):
            cursor.execute(statement)
