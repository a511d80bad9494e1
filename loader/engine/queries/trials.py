"""Trial of a model: rows of its SELECT over the tables as they are, the plan's cost, and the difference to its table.

A trial writes nothing. Its inputs are masked for the reader, like those of the SQL page. Arguments of ``try_model``:

    query       the SELECT for Spark, over the manifest's sources
    text        the SELECT as written, for the position of an error
    limit       most rows of the answer
    sample      {"share": 0.1} or {"rows": 1000}: that part of each source, the same one each time
    compare     also compare all rows with the manifest's table, by the columns ``key``; ``left_out`` are not compared
    checks      quality checks of the rows (CheckSpec as JSON) at ``checked_at``; ``shown_key`` names rows in examples,
                ``left_out_checks`` has the reasons why others are left out
"""

import re
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any

from pyspark.errors import AnalysisException, ParseException, PySparkException, QueryContextType
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from architecture.domain.tables import TableSpec
from loader.contract.manifest.checks import CheckSpec
from loader.contract.manifest.codec import from_json
from loader.contract.manifest.reads import QuerySource, ReadManifest
from loader.contract.refusals import Refusal
from loader.domain.historization.history import parse_instant
from loader.domain.queries.answers import MOST_ROWS
from loader.domain.queries.select_statements import FAILED, INVALID
from loader.engine.compared_texts import types_by_name
from loader.engine.java_errors import first_sentence
from loader.engine.plan_checks import checked_frame
from loader.engine.quality.frame_checks import MOST_SAMPLED, RowChecker, placeholder_values
from loader.engine.queries.answer_values import as_values
from loader.engine.queries.differences import compare
from loader.engine.queries.query_sources import source_frame, version_frame
from loader.engine.queries.select_statements import described_rows
from loader.engine.session import fit_shuffles
from loader.engine.tables.tables import DeltaTable
from metadata.domain.select_check import position
from metadata.domain.sql import quote_identifier

_PARTS = 1_000_000
# Rows that fail a check in an answer.
_MOST_FAILING = 20
_CAST = re.compile(r"CAST\(`([^`]+)` AS [^`]+\)")


def try_model(spark: SparkSession, warehouse: str, manifest: ReadManifest) -> dict[str, Any]:
    """Return columns, types and rows of the SELECT, with its cost and, if asked, the difference to the table."""
    session, arguments, started = fit_shuffles(spark.newSession()), manifest.arguments, time.monotonic()
    limit = min(int(arguments.get("limit", MOST_ROWS)), MOST_ROWS)
    with _failures(arguments["text"], arguments["query"]):
        frame = _frame(session, warehouse, manifest, {})
        cost = _cost(frame)
        if arguments.get("sample"):
            frame = _frame(session, warehouse, manifest, arguments["sample"])
        rows = as_values(frame).limit(limit + 1).collect()
        answer = described_rows(frame, rows, limit) | {"cost": cost}
        if arguments.get("compare"):
            answer["difference"] = _difference(session, warehouse, manifest, frame)
        if "checks" in arguments:
            answer["checked"] = _checked(session, warehouse, manifest, frame)
            answer["left_out_checks"] = arguments["left_out_checks"]
    return answer | {"seconds": round(time.monotonic() - started, 2)}


def _frame(session: SparkSession, warehouse: str, manifest: ReadManifest, sample: Mapping[str, Any]) -> DataFrame:
    for source in manifest.sources:
        rows = source_frame(session, warehouse, source, newest_alone=True)
        _sampled(rows, source.table, sample).createOrReplaceTempView(source.view)
    return checked_frame(session, manifest.arguments["query"])


def _sampled(frame: DataFrame, table: TableSpec, sample: Mapping[str, Any]) -> DataFrame:
    """Return a part of a table that depends on its values only: rows of one entity key are in it together."""
    if not sample:
        return frame
    names = [column.name for column in table.of_purpose("entity_key")] or frame.columns
    digest = F.xxhash64(*(quote_identifier(name) for name in names))
    if "share" in sample:
        return frame.where(F.pmod(digest, F.lit(_PARTS)) < F.lit(round(float(sample["share"]) * _PARTS)))
    return frame.orderBy(digest).limit(int(sample["rows"]))


def _cost(frame: DataFrame) -> dict[str, int]:
    """Return the bytes that the optimized plan reads.

    Spark multiplies the sizes of both sides of a join, so its estimate of the result means nothing.
    """
    leaves = frame._jdf.queryExecution().optimizedPlan().collectLeaves()
    return {"bytes_read": sum(int(str(leaves.apply(place).stats().sizeInBytes())) for place in range(leaves.size()))}


def _difference(session: SparkSession, warehouse: str, manifest: ReadManifest, after: DataFrame) -> dict[str, Any]:
    """Return the difference to the model's table; without a table, every row is an added one."""
    spec, arguments = manifest.own_table, manifest.arguments
    table = DeltaTable(session, warehouse, spec.key)
    version = table.version()
    before = after.where(F.lit(False))
    if version >= 0:
        before = version_frame(table, QuerySource("", spec, masking=manifest.masking), version)
        technical = {column.name for column in spec.columns if column.purpose not in ("business_key", "attribute")}
        before = before.select(*(quote_identifier(name) for name in before.columns if name not in technical))
    types = types_by_name(spec)
    comparison = compare(before, after, arguments.get("key", ()), left_out=arguments.get("left_out", ()), types=types)
    return {"table": spec.qualified_name, "table_version": version if version >= 0 else None, **comparison}


def _checked(session: SparkSession, warehouse: str, manifest: ReadManifest, frame: DataFrame) -> list[dict[str, Any]]:
    """Return the result of each check of the rows, with the first rows that fail it."""
    arguments, table = manifest.arguments, manifest.table
    checker = RowChecker(
        session,
        warehouse,
        at=parse_instant(arguments["checked_at"]),
        key=tuple(arguments["shown_key"]),
        own=table.key if table is not None else "",
        fill=placeholder_values("trial", arguments["checked_at"]),
        types=types_by_name(table),
    )
    checked = checker.check(frame, [from_json(CheckSpec, spec) for spec in arguments["checks"]])
    with_rows = {result.key for result in checked.failed[:MOST_SAMPLED]}
    answers = []
    for result in checked.results:
        check = checked.compiled.get(result.key)
        answer: dict[str, Any] = {"result": result.as_json(), "columns": frame.columns, "rows": [], "truncated": False}
        if check is not None and check.rule.definition.finds_rows and result.key in with_rows:
            failing = checker.rows_failing(frame, check)
            rows = as_values(failing).limit(_MOST_FAILING + 1).collect()
            answer |= described_rows(failing, rows, _MOST_FAILING)
        answers.append(answer)
    return answers


@contextmanager
def _failures(text: str, query: str) -> Iterator[None]:
    """Convert Spark's errors into Refusals SQL_INVALID and SQL_FAILED, with the place that Spark names."""
    try:
        yield
    except PySparkException as error:
        code = INVALID if isinstance(error, AnalysisException | ParseException) else FAILED
        raise Refusal(code, f"{_place(error, text, query)}{first_sentence(error)}") from error


def _place(error: PySparkException, text: str, query: str) -> str:
    """Return the place of the part that failed as a prefix: line and column, or a column of the result.

    Spark reports a part of the query that was made of the text: names of tables differ, views were added, and the
    columns of the result are cast to their types. It is a part of the text if the text has it as often as the query.
    It is often the cast if the expression beneath fails. The place is empty if Spark names no part of either kind.
    """
    for context in error.getQueryContext():
        if context.contextType() != QueryContextType.SQL:
            continue
        part = context.fragment()
        if part and part in text and text.count(part) == query.count(part):
            before = query.count(part, 0, context.startIndex())
            offset = len(part.join(text.split(part)[: before + 1]))
            return f"{position(text, offset)}: "
        if (cast := _CAST.fullmatch(part)) and part not in text:
            return f"column {cast[1]}: "
    return ""
