"""Read-only SQL over temporary views, with columns masked beneath the query.

``loader.domain.queries.select_statements`` has checked the text before. This module also checks Spark's plan: it
may contain no command and no script, and read no table except through the temporary views. The values of the answer
are JSON: integers, floats and booleans as they are, decimals, dates and timestamps (UTC) as text, NULL as null.
"""

import logging
import math
import re
import time
from collections.abc import Iterator
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal
from typing import Any

from py4j.java_gateway import is_instance_of
from pyspark import SparkContext
from pyspark.errors import AnalysisException, ParseException, PySparkException
from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F
from pyspark.sql import types as T

from loader.domain.manifest.reads import Masking, QuerySource, ReadManifest
from loader.domain.queries.masking import is_masked
from loader.domain.queries.select_statements import FAILED, INVALID, MOST_ROWS, REFUSED, position_in_text
from loader.domain.refusals import Refusal
from loader.spark.pyspark_types import jvm_of
from loader.spark.queries import history_queries
from loader.spark.session import fit_shuffles
from loader.spark.sources.kept_deliveries import newest_delivery, of_delivery
from loader.spark.tables.tables import DeltaTable
from metadata.domain.sql import quote_identifier

# PySpark logs the text of every failed query, with the values in it. The user gets the error in the answer instead.
logging.getLogger("SQLQueryContextLogger").setLevel(logging.CRITICAL + 1)
logging.getLogger("DataFrameQueryContextLogger").setLevel(logging.CRITICAL + 1)

# The answer is stored in one row of the control database, so its size is limited.
MOST_BYTES = 32_000_000
_POSITION = re.compile(r"\(?line (\d+),? pos (\d+)\)?")
_PLAN = "org.apache.spark.sql.catalyst.plans.logical.LogicalPlan"
_NOT_ALLOWED = ("ScriptTransformation", "InsertIntoStatement", "InsertIntoDir")
# Expressions with values of the server: its account, catalog and database.
_OF_SERVER = ("CurrentUser", "SessionUser", "CurrentCatalog", "CurrentDatabase")
# Root of a temporary view's plan; the parts below it were not written by the user.
_VIEW = "View"


def run(spark: SparkSession, warehouse: str, manifest: ReadManifest) -> dict[str, Any]:
    """Run the query; return its columns, types and rows.

    Raises Refusal if the query is not allowed, is invalid, fails or returns too much.
    """
    session, arguments = fit_shuffles(spark.newSession()), manifest.arguments
    limit = min(int(arguments.get("limit", MOST_ROWS)), MOST_ROWS)
    try:
        for source in manifest.sources:
            source_frame(session, warehouse, source).createOrReplaceTempView(source.view)
        frame = checked_frame(session, arguments["query"])
        rows = as_values(frame).limit(limit + 1).collect()
    except PySparkException as error:
        raise _refusal(error, arguments) from error
    finally:
        for source in manifest.sources:
            session.catalog.dropTempView(source.view)
    return described_rows(frame, rows, limit)


def described_rows(frame: DataFrame, rows: list[T.Row], limit: int) -> dict[str, Any]:
    """Return columns, types and the first ``limit`` rows as JSON values. Raise Refusal for a result that is too large.

    ``rows`` are the collected rows of ``as_values(frame)``, with one more than ``limit`` if there are more.
    """
    values = [[json_value(value) for value in row] for row in rows[:limit]]
    if sum(len(str(value)) for row in values for value in row) > MOST_BYTES:
        raise Refusal(
            FAILED, f"the result has more than {MOST_BYTES:,} characters", hint="select fewer columns or rows"
        )
    return {
        "columns": frame.columns,
        "types": [field.dataType.simpleString() for field in frame.schema.fields],
        "rows": values,
        "truncated": len(rows) > limit,
    }


# Sources with masked columns.


def source_frame(
    session: SparkSession, warehouse: str, source: QuerySource, *, newest_alone: bool = False
) -> DataFrame:
    """Return the rows of a source as its reader may see them. Raise Refusal NO_TABLE.

    With ``newest_alone``, of a raw table that keeps several deliveries these are the rows of the newest.
    """
    if source.query is not None:
        keys = {column.name: column.key for column in source.table.columns}
        return _mask_columns(session.sql(source.query), keys, source.masking)
    table = DeltaTable(session, warehouse, source.table.key)
    version = table.version()
    if version < 0:
        raise Refusal("NO_TABLE", f"{source.table.qualified_name} does not exist in the warehouse")
    return version_frame(table, source, version, newest_alone=newest_alone)


def version_frame(table: DeltaTable, source: QuerySource, version: int, *, newest_alone: bool = False) -> DataFrame:
    """Return the rows of a version of a source's table as its reader may see them."""
    delivery = newest_delivery(table, source.table, version) if newest_alone else None
    frame = of_delivery(table.frame_as_of(version), source.table, delivery)
    keys = history_queries.column_keys(table, version) if source.masking is not None else {}
    return _mask_columns(frame, keys, source.masking)


def _mask_columns(frame: DataFrame, keys: dict[str, str], masking: Masking | None) -> DataFrame:
    """Return the frame with masked columns as NULL, and with key hashes hashed again with the secret.

    Columns are selected even if none is masked, because a projection removes Spark's hidden column of file names.
    """
    return frame.select(*(_column(field, keys.get(field.name), masking) for field in frame.schema.fields))


def _column(field: T.StructField, key: str | None, masking: Masking | None) -> Column:
    column = F.col(quote_identifier(field.name))
    if masking is None:
        return column.alias(field.name)
    if is_masked(field.name, key, masking):
        return F.lit(None).cast(field.dataType).alias(field.name)
    if key in masking.hashed:
        digest = F.sha2(F.concat_ws(" ", F.lit(masking.secret), F.lit("+"), column), 256)
        return F.when(column.isNotNull(), digest).alias(field.name)
    return column.alias(field.name)


def view_rows(session: SparkSession, warehouse: str, manifest: ReadManifest) -> tuple[DataFrame, list[str]]:
    """Return the rows of a view, the last of the manifest's sources, and the names of its masked columns.

    ``session`` has the temporary views afterwards.
    """
    masking = manifest.masking
    try:
        for source in manifest.sources:
            source_frame(session, warehouse, source).createOrReplaceTempView(source.view)
        frame = session.table(manifest.sources[-1].view)
    except PySparkException as error:
        raise Refusal(INVALID, f"{manifest.own_table.qualified_name}: {first_sentence(error)}") from error
    keys = {column.name: column.key for column in manifest.own_table.columns}
    names = [name for name in frame.columns if masking is not None and is_masked(name, keys.get(name), masking)]
    return frame, names


# Checks of Spark's plans.


def checked_frame(session: SparkSession, query: str) -> DataFrame:
    """Return the query as a frame. Raise Refusal SQL_REFUSED for anything but one SELECT over temporary views.

    ``session.sql`` would run a command at once, so the parsed statement is checked first.
    """
    parsed = session._jsparkSession.sessionState().sqlParser().parsePlan(query)
    commands = jvm_of(session).org.apache.spark.sql.catalyst.trees.TreePattern.COMMAND()
    if parsed.containsPattern(commands):
        raise Refusal(REFUSED, "line 1, column 1: only one SELECT can be run")
    for node in _nodes(parsed):
        _check_name(node.getClass().getSimpleName())
    frame = session.sql(query)
    for node in _nodes(frame._jdf.queryExecution().analyzed(), beneath_views=False):
        name = node.getClass().getSimpleName()
        _check_name(name)
        _check_words(session, node)
        if name == _VIEW and not node.isTempView():
            raise Refusal(REFUSED, "only published tables and views can be read")
        if name.endswith("Relation") and name not in ("LocalRelation", "OneRowRelation", "CTERelationRef"):
            raise Refusal(REFUSED, "only published tables and views can be read")
    return frame


def _check_name(name: str) -> None:
    if name in _NOT_ALLOWED or name.endswith("Command"):
        raise Refusal(REFUSED, f"only one SELECT can be run, and this is a {name}")


def _check_words(session: SparkSession, node: Any) -> None:
    """Refuse words like ``user``, which name the account of the server where no column is called so."""
    if not node.containsPattern(jvm_of(session).org.apache.spark.sql.catalyst.trees.TreePattern.CURRENT_LIKE()):
        return
    waiting = [node.expressions()]
    while waiting:
        expressions = waiting.pop()
        for index in range(expressions.size()):
            expression = expressions.apply(index)
            if expression.getClass().getSimpleName() in _OF_SERVER:
                raise Refusal(REFUSED, f"{expression.prettyName()} is not allowed: it names the server's account")
            waiting.append(expression.children())


def _nodes(plan: Any, *, beneath_views: bool = True) -> Iterator[Any]:
    """Yield the nodes of a logical plan, including subqueries and common table expressions.

    With ``beneath_views`` False, the nodes below a view are left out.
    """
    yield plan
    if not beneath_views and plan.getClass().getSimpleName() == _VIEW:
        return
    for part in (plan.children(), plan.innerChildren(), plan.subqueries()):
        for index in range(part.size()):
            child = part.apply(index)
            if is_instance_of(SparkContext._gateway, child, _PLAN):
                yield from _nodes(child, beneath_views=beneath_views)


def _refusal(error: PySparkException, arguments: dict[str, Any]) -> Refusal:
    """Return a Refusal with Spark's message and its position in the text that the user wrote."""
    message, first = str(error.getMessage() or error).strip(), first_sentence(error)
    if not isinstance(error, AnalysisException | ParseException):
        return Refusal(FAILED, first)
    return Refusal(INVALID, f"{_position(error, message, arguments)}{first}")


def first_sentence(error: PySparkException) -> str:
    """Return the first line of Spark's message, without the error's class and SQLSTATE."""
    message = str(error.getMessage() or error).strip()
    first = re.split(r"\s*SQLSTATE:", message.splitlines()[0] if message else type(error).__name__)[0]
    return re.sub(r"\A\[[A-Z_.0-9]+\]\s*", "", first).strip()[:500]


def _position(error: PySparkException, message: str, arguments: dict[str, Any]) -> str:
    """Return the position of an error in the text as a prefix that ends in a colon; empty if Spark names none."""
    query, match = arguments["query"], _POSITION.search(message)
    offset: int | None = None
    if match is not None:
        starts = [0, *(newline.end() for newline in re.finditer("\n", query))]
        offset = starts[min(int(match[1]), len(starts)) - 1] + int(match[2])
    else:
        offset = next((context.startIndex() for context in error.getQueryContext() if context.startIndex() >= 0), None)
    if offset is None:
        return ""
    return f"{position_in_text(arguments['text'], offset, arguments.get('replaced', ()))}: "


# Values of the answer.


def as_values(frame: DataFrame) -> DataFrame:
    """Return the frame with distinct column names and with times as text.

    Spark converts the times: Python's ``datetime`` lacks some years, and ``collect`` uses the local time zone.
    """
    fields = frame.schema.fields
    plain = frame.toDF(*(f"c{index}" for index in range(len(fields))))
    return plain.select(*(_value_of(F.col(f"c{index}"), field.dataType) for index, field in enumerate(fields)))


def _value_of(column: Column, type_: T.DataType) -> Column:
    if isinstance(type_, T.TimestampType):
        return F.concat(F.translate(column.cast("string"), " ", "T"), F.lit("Z"))
    if isinstance(type_, T.TimestampNTZType):
        return F.translate(column.cast("string"), " ", "T")
    if isinstance(type_, T.ArrayType | T.MapType | T.StructType | T.StringType | T.NumericType | T.BooleanType):
        return column
    return F.hex(column) if isinstance(type_, T.BinaryType) else column.cast("string")


def _utc(value: datetime) -> datetime:
    """Return an instant in UTC. Rows of Spark have local times, of which Python converts none near the year 10000."""
    if value.tzinfo is not None:
        return value.astimezone(UTC)
    seconds = time.mktime(value.timetuple())
    return datetime(1970, 1, 1, tzinfo=UTC) + timedelta(seconds=seconds, microseconds=value.microsecond)


def json_value(value: Any) -> Any:
    """Return a value as a JSON value; NaN and infinities become text."""
    if isinstance(value, Decimal):
        return format(value, "f")
    if isinstance(value, float) and not math.isfinite(value):
        return "NaN" if math.isnan(value) else "Infinity" if value > 0 else "-Infinity"
    if isinstance(value, datetime):
        return _utc(value).isoformat().replace("+00:00", "Z")
    if isinstance(value, date):
        return value.isoformat()
    if isinstance(value, bytes | bytearray):
        return bytes(value).hex().upper()
    if isinstance(value, timedelta):
        return str(value)
    if isinstance(value, T.Row):
        return {name: json_value(item) for name, item in value.asDict().items()}
    if isinstance(value, dict):
        return {str(json_value(name)): json_value(item) for name, item in value.items()}
    return [json_value(item) for item in value] if isinstance(value, list) else value
