"""Commits of rows to Delta tables, by one of two paths with the same result.

*direct* builds the commit from Delta's own classes (``direct_commits``). It is faster, but these classes are not a
public interface. *public* appends, overwrites or merges (``public_commits``). The runner chooses the path at its start.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any

from pyspark.sql import DataFrame, SparkSession

from loader.engine.tables.direct_commits import DirectFiles
from loader.engine.tables.public_commits import PublicFiles
from loader.engine.tables.table_files import Changes, TableFiles
from loader.engine.tables.tables import DeltaTable

DIRECT, PUBLIC = "direct", "public"


@dataclass(frozen=True)
class CommitPath:
    """Path of the commits of this process, and the reason for it."""

    name: str
    reason: str

    def as_json(self) -> dict[str, str]:
        return asdict(self)


# A runner is one process with one installation of Delta.
_path = CommitPath(DIRECT, "no path was chosen")


def use(path: CommitPath) -> None:
    """Commit by this path from now on."""
    global _path
    _path = path


def path_in_use() -> CommitPath:
    return _path


def open_files(session: SparkSession, table: DeltaTable, key: tuple[str, ...] = ()) -> TableFiles:
    """Return a table's content at its present version.

    ``key`` are the columns that identify the rows of placed frames.
    """
    if _path.name == PUBLIC:
        return PublicFiles(session, table, key)
    return DirectFiles(session, table)


def commit(
    files: TableFiles,
    app_id: str | None,
    sequence: int = 0,
    *,
    add: DataFrame | None = None,
    written: Sequence[str] = (),
    remove: list[Any] | None = None,
    gone: DataFrame | None = None,
    gone_from: list[Any] | None = None,
    last: Callable[[], None] | None = None,
    recorded: Mapping[str, int] | None = None,
) -> bool:
    """Commit added rows, the removal of the files ``remove``, and of rows at the places ``gone`` in ``gone_from``.

    Return False without a write if the table already has ``sequence`` of the application ``app_id``. Without
    ``app_id`` the commit has no sequence. ``last`` is called after all rows are computed and before the commit; its
    exception leaves the table unchanged. ``recorded`` are further application ids with their versions, that of the
    run first. ``written`` are ``add`` actions, as JSON, of files that are in the table's folder already; only the
    direct path commits them. Raise TableMoved if the table has changed since ``files`` was read.
    """
    return files.commit(Changes(app_id, sequence, add, written, remove, gone, gone_from, last, recorded or {}))
