"""Read-only SQL over temporary views, with columns masked beneath the query.

``loader.domain.queries.select_statements`` has checked the text before; ``loader.engine.plan_checks`` also checks
Spark's plan.
"""

import re
from typing import Any

from pyspark.errors import AnalysisException, ParseException, PySparkException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import types as T

from loader.contract.manifest.reads import ReadManifest
from loader.contract.refusals import Refusal
from loader.domain.queries.select_statements import FAILED, INVALID, MOST_ROWS, position_in_text
from loader.engine.java_errors import first_sentence, message_of
from loader.engine.plan_checks import checked_frame
from loader.engine.queries.answer_values import as_values, json_value
from loader.engine.queries.query_sources import source_frame
from loader.engine.session import fit_shuffles

# The answer is stored in one row of the control database, so its size is limited.
MOST_BYTES = 32_000_000
_POSITION = re.compile(r"\(?line (\d+),? pos (\d+)\)?")


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


def _refusal(error: PySparkException, arguments: dict[str, Any]) -> Refusal:
    """Return a Refusal with Spark's message and its position in the text that the user wrote."""
    message, first = message_of(error), first_sentence(error)
    if not isinstance(error, AnalysisException | ParseException):
        return Refusal(FAILED, first)
    return Refusal(INVALID, f"{_position(error, message, arguments)}{first}")


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
