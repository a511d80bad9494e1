"""Interface of the two commit paths: content of a table at one version, and commits of changes to it.

``loader.engine.tables.direct_commits`` builds commits from the parts of Delta's own commands;
``loader.engine.tables.public_commits`` writes by Delta's public interfaces. Callers get an object from
``loader.engine.tables.commits``; rows and commit metadata are the same on both paths.
"""

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from delta.exceptions import base as delta
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from loader.contract.refusals import Refusal
from loader.engine.java_errors import thrown_by
from loader.engine.tables.tables import DeltaTable
from metadata.domain.sql import quote_identifier

# Column of a placed frame: the value by which a commit identifies the row.
PLACE = "__place"
_TIMES = "__times"

# Delta's exceptions for conflicts with another writer's commit; they have no common base class of their own.
CONFLICTS = (
    delta.ConcurrentAppendException,
    delta.ConcurrentDeleteDeleteException,
    delta.ConcurrentDeleteReadException,
    delta.ConcurrentTransactionException,
    delta.ConcurrentWriteException,
    delta.DeltaConcurrentModificationException,
    delta.MetadataChangedException,
    delta.ProtocolChangedException,
)

# Parts of the messages of Delta and Spark for a version whose log or files are no longer there.
_MISSING_VERSION_ERRORS = (
    "DELTA_UNSUPPORTED_TIME_TRAVEL_BEYOND_DELETED_FILE_RETENTION_DURATION",
    "DELTA_TIMESTAMP_EARLIER_THAN_COMMIT_RETENTION",
    "DELTA_VERSION_NOT_FOUND",
    "DELTA_FILE_NOT_FOUND",
    "DELTA_LOG_FILE_NOT_FOUND",
    "DELTA_NO_RECREATABLE_HISTORY_FOUND",
    "DELTA_TRUNCATED_TRANSACTION_LOG",
    "DELTA_VERSIONS_NOT_CONTIGUOUS",
    "FAILED_READ_FILE.FILE_NOT_EXIST",
    "java.io.FileNotFoundException",
)


def misses_version(failure: Exception) -> bool:
    """Return True if an earlier version of a table cannot be read because its log or files were removed."""
    text = " ".join(f"{thrown.name} {thrown.message}" for thrown in thrown_by(failure))
    return any(part in text for part in _MISSING_VERSION_ERRORS)


def rows_apart(added: DataFrame, removed: DataFrame, columns: Sequence[str]) -> DataFrame:
    """Return these columns of the rows that one of two frames has more often than the other.

    Another column whose type differs is compared as text.
    """
    types = dict(added.dtypes)
    retyped = [name for name, type_ in removed.dtypes if name not in columns and types.get(name, type_) != type_]
    added, removed = (
        frame.withColumns({name: F.col(quote_identifier(name)).cast("string") for name in retyped})
        for frame in (added, removed)
    )
    counted = added.withColumn(_TIMES, F.lit(1)).unionByName(
        removed.withColumn(_TIMES, F.lit(-1)), allowMissingColumns=True
    )
    equal = [quote_identifier(name) for name in counted.columns if name != _TIMES]
    times = counted.groupBy(*equal).agg(F.sum(_TIMES).alias(_TIMES))
    return times.where(F.col(_TIMES) != 0).select(*map(quote_identifier, columns))


class TableMoved(Refusal):
    """Refusal raised, before any write, if another writer committed after this run read the table."""


@dataclass(frozen=True)
class Changes:
    """Changes of one commit; the fields are the arguments of ``loader.engine.tables.commits.commit``."""

    app_id: str | None = None
    sequence: int = 0
    add: DataFrame | None = None
    written: Sequence[str] = ()
    remove: list[Any] | None = None
    gone: DataFrame | None = None
    gone_from: list[Any] | None = None
    last: Callable[[], None] | None = None
    recorded: Mapping[str, int] = field(default_factory=dict)


class TableFiles(ABC):
    """Content of a table at one version, the newest at the first access.

    A *file* is the unit that a commit reads or removes as a whole: a data file on the direct path, all rows of one
    partition on the public one.
    """

    session: SparkSession
    table: DeltaTable

    @property
    @abstractmethod
    def version(self) -> int:
        """Return the version of the table that is read and that the commit is based on."""

    @property
    @abstractmethod
    def all(self) -> list[Any]:
        """Return the table's files; none for an empty table."""

    @abstractmethod
    def where(self, column: str, *values: str) -> list[Any]:
        """Return the files of the partitions with these values."""

    @abstractmethod
    def frame(self, files: list[Any] | None = None, *, placed: bool = False) -> DataFrame:
        """Return the rows of these files, by default of all, and with ``placed`` the place of each row."""

    @abstractmethod
    def rows(self) -> int | None:
        """Return the number of rows without reading them, None if it is not known."""

    def content(self) -> str:
        """Return a text that identifies the table's rows: equal texts mean equal rows."""
        return f"version {self.version}"

    def content_of(self, version: int) -> str:
        """Return ``content`` as it was in an earlier version."""
        return f"version {version}"

    def changed_rows(self, before: int, columns: Sequence[str]) -> DataFrame:
        """Return these columns of the rows that were added or removed since an earlier version."""
        return rows_apart(self.table.frame_as_of(self.version), self.table.frame_as_of(before), columns)

    def added_rows(self, before: int) -> DataFrame:
        """Return rows that have all those that were added since an earlier version."""
        return self.table.frame_as_of(self.version)

    @abstractmethod
    def commit(self, changes: Changes) -> bool:
        """Commit the changes; return and raise as ``loader.engine.tables.commits.commit`` describes."""

    def moved(self) -> TableMoved:
        return TableMoved(
            "TABLE_MOVED",
            f"{self.table.location}: another writer committed to the table after version "
            f"{self.version}, which this run had read",
            hint="Nothing was written. Run it again when the other writer is done.",
        )
