"""Rows of a model's SELECT over the tables as they are."""

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cached_property

from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession

from architecture.domain.tables import TableSpec
from loader.contract.manifest.loads import ModelQuery
from loader.contract.refusals import Refusal
from loader.engine.java_errors import error_condition, lost_executor
from loader.engine.sources.kept_deliveries import newest_delivery, of_delivery
from loader.engine.tables.commits import open_files
from loader.engine.tables.table_files import TableFiles, rows_apart
from loader.engine.tables.tables import DeltaTable

# Tables of up to this number of files are read by their list of files, without a query of the log.
_LISTED_FILES = 16


@dataclass(frozen=True)
class Input:
    """Table that a model reads, at one version.

    ``delivery`` is the run of the newest delivery in a raw table that keeps several: the model reads no other.
    """

    view: str
    spec: TableSpec
    files: TableFiles
    delivery: str | None = None

    @cached_property
    def content(self) -> str:
        """Return a text that identifies the rows of the table: equal texts mean equal rows."""
        return self.files.content()

    def frame(self) -> DataFrame:
        is_listed = len(self.files.all) <= _LISTED_FILES
        frame = self.files.frame() if is_listed else self.files.table.frame_as_of(self.files.version)
        return of_delivery(frame, self.spec, self.delivery)

    def has(self, version: int, content: str) -> bool:
        """Return True if an earlier version has this content, as it has unless the table was created anew since."""
        return version <= self.files.version and self.files.content_of(version) == content

    def changed_rows(self, before: int, columns: Sequence[str]) -> DataFrame:
        """Return these columns of the rows that were added or removed since an earlier version.

        A delivery that is no longer the newest counts as removed, although its files stay.
        """
        if self.delivery is None:
            return self.files.changed_rows(before, columns)
        return rows_apart(self.frame(), self.files.table.frame_as_of(before), columns)


def open_inputs(session: SparkSession, warehouse: str, query: ModelQuery, name: str) -> list[Input]:
    """Return the tables of a query at their present versions. Raise Refusal NO_TABLE for a missing one."""
    inputs = []
    for view, spec in query.views:
        table = DeltaTable(session, warehouse, spec.key)
        if not table.exists():
            raise Refusal(
                "NO_TABLE",
                f"{name} reads {spec.qualified_name}, which has no table yet",
                hint=f"Load {spec.qualified_name} first.",
            )
        files = open_files(session, table)
        inputs.append(Input(view, spec, files, newest_delivery(table, spec, files.version)))
    return inputs


def model_frame(session: SparkSession, query: ModelQuery, frames: Mapping[str, DataFrame], name: str) -> DataFrame:
    """Return the rows of a query over frames by the names of their views. Raise Refusal MODEL_FAILED."""
    for view, frame in frames.items():
        frame.createOrReplaceTempView(view)
    with failures_of(name):
        return session.sql(query.sql)


def read_model(session: SparkSession, warehouse: str, query: ModelQuery, name: str) -> DataFrame:
    """Return the rows of a query over the tables as they are."""
    inputs = open_inputs(session, warehouse, query, name)
    return model_frame(session, query, {item.view: item.frame() for item in inputs}, name)


@contextmanager
def failures_of(name: str) -> Iterator[None]:
    """Convert an error of Spark about the SELECT into a Refusal MODEL_FAILED; that of a lost executor stays."""
    try:
        yield
    except PySparkException as error:
        condition = error_condition(error)
        if not condition or lost_executor(error):
            raise
        raise Refusal(
            "MODEL_FAILED",
            f"{name}: {condition}",
            hint="Correct the SELECT of the model, or the rows that it reads. The table has its rows of before.",
        ) from error
