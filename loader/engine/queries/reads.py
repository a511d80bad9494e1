"""Bounded queries for pages, with columns masked before the query runs.

Kinds and their arguments:

    sample      limit, newest, …             rows of a table or view; ``newest``: the last loaded rows first; or
                                             those of a selection (``loader.domain.queries.row_selection``); with
                                             ``check`` (a CheckSpec as JSON), those that fail it at ``checked_at``
    export      path, exact, …               all rows of a selection as a CSV file (``loader.engine.queries.exports``);
                                             with ``at``, those of as_of
    changes     run_id, op, limit, …         changes of a run in a history by key (``historization.changes``), or
                                             those of a selection
    key_search  text, limit                  business keys of a history or rawcore table with text in a column
    versions    entity_key | business_key    every version of one key, oldest first
    as_of       at, limit, text, known_at, …  rows valid at an instant (at a number, if the history is dated by
                                             numbers), from the table version of the clock time ``known_at``;
                                             ``text``: in a column of the key; or those of a selection;
                                             ``tombstone``: state label of rows that mark a deleted key,
                                             ``inclusive_ends``: an interval includes its end
    compare     by, base, other              difference of two states of a table (``loader.engine.queries.comparisons``)
    origin      entity_key, limit, at        delivered rows of a key in raw (``loader.engine.queries.origins``); ``at``:
                                             those of the version that was valid then
    descendants run_id, file, row            what tables have under the keys of one delivered row (same module)
    discover    (source)                     columns and inferred types of a file
    quarantine  limit, run_id, secret        waiting rows of the dataset's quarantine, newest first; of one run, also
                                             those of a raw dataset's delivery that it refused; ``secret``: of the
                                             tokens by which decisions name them
    profile     known_version                profile of the table (``loader.engine.quality.profiles``); ``unchanged`` if
                                             the table still has the version that is known
    quality     checks, checked_at           results of quality checks (CheckSpec as JSON) on the table as it is
    sql         text, query, replaced, limit  one SELECT over ``sources`` (``loader.engine.queries.select_statements``)
    try_model   query, text, limit, sample, compare  a model before it is saved (``loader.engine.queries.trials``)

changes, key_search and as_of are ordered by business key, unless a selection sorts them; with ``after`` (a key's
values as text) they start behind that key.

Every answer has the Delta version that was read, None for a view. Values are text, as Spark casts them, and NULL is
null, so that pages need not convert them.
"""

from collections.abc import Callable, Collection, Iterator
from contextlib import contextmanager

from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F

from architecture.domain.tables import TableSpec
from loader.contract.manifest.checks import CheckSpec
from loader.contract.manifest.codec import from_json
from loader.contract.manifest.reads import ReadManifest
from loader.contract.refusals import Refusal
from loader.domain.historization.history import parse_instant
from loader.domain.quality.sensitive_results import without_sensitive
from loader.domain.queries.answers import (
    COMPARE,
    DESCENDANTS,
    EXPORT,
    MOST_QUARANTINED,
    MOST_ROWS,
    ORIGIN,
    first_rows,
    rows_kind,
)
from loader.domain.queries.masking import masked_names, must_not_choose_by
from loader.domain.queries.row_selection import RowSelection
from loader.engine.compared_texts import types_by_name
from loader.engine.expressions import all_of
from loader.engine.quality.frame_checks import RowChecker, placeholder_values
from loader.engine.quality.profiles import profile
from loader.engine.quality.quarantine import RECORD_TEXT, quarantine_table, waiting_rows
from loader.engine.queries import history_queries, query_sources, select_statements, trials
from loader.engine.queries.comparisons import compare_tables
from loader.engine.queries.exports import export_rows, export_session
from loader.engine.queries.history_queries import valid_at
from loader.engine.queries.masking import hidden, readable
from loader.engine.queries.origins import read_descendants, read_origin
from loader.engine.queries.row_selections import after_key, business_key, find_text, select_rows
from loader.engine.queries.run_changes import changed_rows, changes
from loader.engine.session import fit_shuffles
from loader.engine.sources.discovery import discover
from loader.engine.tables.table_files import misses_version
from loader.engine.tables.tables import DeltaTable
from loader.engine.time_limits import in_time
from metadata.domain.sql import quote_identifier


def read(spark: SparkSession, warehouse: str, manifest: ReadManifest, job_group: str) -> dict:
    """Answer one query; raise Refusal if the table does not exist or the query takes too long."""
    with in_time(spark, job_group, f"read {manifest.kind}", manifest.timeout_seconds):
        return _answer(spark, warehouse, manifest)


def _discovered(spark: SparkSession, _: str, manifest: ReadManifest) -> dict:
    source = manifest.source
    assert source is not None
    return discover(spark, source.location, source.format, source.options)


def _origin(spark: SparkSession, warehouse: str, manifest: ReadManifest) -> dict:
    return read_origin(spark, warehouse, manifest, _limit(manifest.arguments))


def _answer(spark: SparkSession, warehouse: str, manifest: ReadManifest) -> dict:
    if manifest.kind in _WITHOUT_TABLE:
        return _WITHOUT_TABLE[manifest.kind](spark, warehouse, manifest)
    if manifest.kind == EXPORT:
        spark = export_session(spark)
    kind = rows_kind(manifest.kind, manifest.arguments)
    if kind not in _OF_TABLE:
        raise Refusal("UNKNOWN_READ", f"There is no read of kind {manifest.kind}")
    if manifest.sources:
        return _of_view(spark, warehouse, manifest, kind)
    if manifest.arguments.get("check") and manifest.kind != EXPORT:
        spark = fit_shuffles(spark.newSession())
    table = DeltaTable(spark, warehouse, manifest.own_table.key)
    if not table.exists():
        raise Refusal(
            "NO_TABLE",
            f"{manifest.own_table.qualified_name} does not exist in the warehouse yet",
            hint="A load run creates it.",
        )
    if kind == "as_of" and manifest.arguments.get("known_at"):
        return _as_known(table, manifest)
    version = table.version()
    with _unless_moved(table, manifest.own_table, version):
        if kind == "profile":
            if manifest.arguments.get("known_version") == version:
                return {"table_version": version, "unchanged": True}
            return _profile(table.frame_as_of(version), manifest, version)
        if kind == "quality":
            return _checked(spark, warehouse, manifest, version)
        return {"table_version": version, **_of_version(table, manifest, kind, version, warehouse)}


@contextmanager
def _unless_moved(table: DeltaTable, spec: TableSpec, version: int) -> Iterator[None]:
    """Convert an error about files that are gone into a Refusal TABLE_MOVED if the table has another version by now."""
    try:
        yield
    except Exception as failure:
        if not misses_version(failure) or table.version() == version:
            raise
        raise Refusal(
            "TABLE_MOVED",
            f"another program changed {spec.qualified_name} and removed its former files while it was read",
            hint="Read it again.",
        ) from failure


def _of_view(spark: SparkSession, warehouse: str, manifest: ReadManifest, kind: str) -> dict:
    """Return the profile of a view, or selected rows of it."""
    session = spark if manifest.kind == EXPORT else fit_shuffles(spark.newSession())
    frame, names = query_sources.view_rows(session, warehouse, manifest)
    if kind == "profile":
        return _profile(frame, manifest, None)
    result = select_rows(frame, manifest.own_table, RowSelection.from_arguments(manifest.arguments), names)
    return {"table_version": None, **_shown(result, manifest, names)}


def _as_known(table: DeltaTable, manifest: ReadManifest) -> dict:
    """Return the rows of a history as of a time, as known at another."""
    spec, known_at = manifest.own_table, manifest.arguments["known_at"]
    with history_queries.within_retention(spec, known_at):
        commit = history_queries.commit_known_at(table, spec, known_at)
        frame, hidden_then = readable(table, spec, commit.version, manifest.masking)
        present = history_queries.frame_as_known(frame, table, spec, commit.version)
        names = [now for then, now in zip(frame.columns, present.columns, strict=True) if then in hidden_then]
        answer = _shown(_as_of(present, manifest, names), manifest, names)
        return {"table_version": commit.version, "committed_at": commit.at.isoformat(), **answer}


def _of_version(table: DeltaTable, manifest: ReadManifest, kind: str, version: int, warehouse: str) -> dict:
    spec, arguments = manifest.own_table, manifest.arguments
    frame, names = readable(table, spec, version, manifest.masking)
    if kind == "changes" and manifest.kind == EXPORT:
        rows, exact = changed_rows(frame, spec, arguments, names), bool(arguments.get("exact"))
        return export_rows(rows, (), arguments["path"], ordered=True, exact=exact) | {"masked": names}
    if kind == "changes":
        answer = changes(frame, spec, arguments, _limit(arguments), names)
        for change in answer["changes"] if names else ():
            sides = [side for side in ("before", "after") if change[side] is not None]
            change |= zip(sides, hidden(answer["columns"], [change[side] for side in sides], names), strict=True)
        return {"masked": names, **answer}
    if kind == "sample":
        selection, newest = RowSelection.from_arguments(arguments), bool(arguments.get("newest"))
        if arguments.get("check"):
            check = from_json(CheckSpec, arguments["check"])
            must_not_choose_by([name for name in frame.columns if name.lower() in check.rule.reads], names)
            frame = _checker(table.spark, warehouse, manifest).failing_rows(frame, check)
        return _shown(select_rows(frame, spec, selection, names, newest=newest), manifest, names)
    if kind == "versions":
        return _rows(_versions(frame, spec, arguments), arguments, names, in_order=True)
    if kind == "as_of":
        return _shown(_as_of(frame, manifest, names), manifest, names)
    return _rows(_key_search(_with_key_text(frame, spec, arguments, names), spec, arguments), arguments, names)


def _shown(frame: DataFrame, manifest: ReadManifest, masked_names: list[str]) -> dict:
    """Return the first rows as text; of an export, write all of them to its file."""
    arguments = manifest.arguments
    if manifest.kind != EXPORT:
        return _rows(frame, arguments, masked_names)
    texts, ordered = frame.select(*(_as_text(frame, name) for name in frame.columns)), _is_ordered(arguments)
    return export_rows(texts, masked_names, arguments["path"], ordered=ordered, exact=bool(arguments.get("exact")))


def _is_ordered(arguments: dict) -> bool:
    return bool(arguments.get("sort") or arguments.get("at"))


def _quarantined(spark: SparkSession, warehouse: str, manifest: ReadManifest) -> dict:
    """Return waiting rows of a quarantine, with masks instead of masked values.

    The text of a malformed record is masked for every reader without the permission to read sensitive values: it may
    have columns that nobody described.
    """
    arguments = manifest.arguments
    table = quarantine_table(spark, warehouse, manifest.own_table.key)
    version = table.version()
    if version < 0:
        return {"table_version": version, "columns": [], "rows": [], "truncated": False, "masked": []}
    run_id = arguments.get("run_id", "")
    frame = waiting_rows(table, version, manifest.own_table, secret=arguments["secret"], run_id=run_id)
    names = _masked_columns(manifest)
    names += [RECORD_TEXT] if manifest.masking is not None and RECORD_TEXT in frame.columns else []
    shown = frame.select(
        *(F.lit(None).alias(name) if name in names else F.col(quote_identifier(name)) for name in frame.columns)
    )
    return {"table_version": version, **_rows(shown, arguments, names, most=MOST_QUARANTINED)}


def _masked_columns(manifest: ReadManifest) -> list[str]:
    described = manifest.own_table.of_purpose("business_key", "attribute")
    return masked_names(described, manifest.masking) if manifest.masking is not None else []


def _profile(frame: DataFrame, manifest: ReadManifest, version: int | None) -> dict:
    """Return the profile of a table's business columns; masked columns have counts and no values."""
    described = manifest.own_table.of_purpose("business_key", "attribute") or manifest.own_table.columns
    names = [column.name for column in described if column.name in frame.columns]
    hidden = _masked_columns(manifest)
    profiled = profile(frame.select(*map(quote_identifier, names)), hidden)
    return {"table_version": version, "columns": names, "masked": hidden, **profiled}


def _checked(spark: SparkSession, warehouse: str, manifest: ReadManifest, version: int) -> dict:
    """Return the results of quality checks on the table as it is."""
    specs = [from_json(CheckSpec, spec) for spec in manifest.arguments["checks"]]
    session = fit_shuffles(spark.newSession())
    own = DeltaTable(session, warehouse, manifest.own_table.key)
    checked = _checker(session, warehouse, manifest).check(own.frame_as_of(version), specs)
    dataset = manifest.own_table.dataset_key
    results = without_sensitive(checked.results, specs, manifest.arguments["sensitive"], own=dataset)
    return {"table_version": version, "results": [result.as_json() for result in results]}


def _checker(session: SparkSession, warehouse: str, manifest: ReadManifest) -> RowChecker:
    """Return the checks' context for the rows of a table as it is."""
    spec, at = manifest.own_table, manifest.arguments["checked_at"]
    return RowChecker(
        session,
        warehouse,
        at=parse_instant(at),
        key=tuple(column.name for column in spec.of_purpose("business_key")),
        own=spec.key,
        fill=placeholder_values("", at),
        types=types_by_name(spec),
    )


def _rows(
    frame: DataFrame, arguments: dict, masked_names: list[str], *, in_order: bool = False, most: int = MOST_ROWS
) -> dict:
    """Return the rows as text, without the last ones if they have more than ``MOST_BYTES`` characters.

    With ``in_order``, masks show if a value differs from the previous row's.
    """
    limit = _limit(arguments, most)
    rows = frame.select(*(_as_text(frame, name) for name in frame.columns)).limit(limit + 1).collect()
    chosen = first_rows(rows[:limit], select_statements.MOST_BYTES)
    if in_order:
        chosen = hidden(frame.columns, chosen, masked_names)
    else:
        chosen = [masked_row for row in chosen for masked_row in hidden(frame.columns, [row], masked_names)]
    return {
        "columns": frame.columns,
        "rows": chosen,
        "truncated": len(rows) > len(chosen),
        "masked": [name for name in frame.columns if name in masked_names],
    }


def _limit(arguments: dict, most: int = MOST_ROWS) -> int:
    return min(int(arguments.get("limit", 50)), most)


def _as_text(frame: DataFrame, name: str) -> Column:
    return F.col(quote_identifier(name)).cast("string").alias(name)


def _with_key_text(frame: DataFrame, table: TableSpec, arguments: dict, masked: Collection[str]) -> DataFrame:
    """Return the rows with the argument ``text`` in a column of the business key, ignoring case."""
    names = [column.name for column in table.of_purpose("business_key")]
    return find_text(frame, str(arguments.get("text", "")), names, masked)


def _key_search(frame: DataFrame, table: TableSpec, arguments: dict) -> DataFrame:
    """Return the keys of the rows, in order."""
    names = business_key(table)
    entity_key = quote_identifier(table.column("entity_key").name)
    return after_key(frame, table, arguments).select(*names, entity_key).distinct().orderBy(*names)


def _as_of(frame: DataFrame, manifest: ReadManifest, masked: Collection[str]) -> DataFrame:
    """Return the selected rows that were valid at a time."""
    spec, arguments = manifest.own_table, manifest.arguments
    valid = valid_at(_with_key_text(frame, spec, arguments, masked), spec, arguments)
    return select_rows(valid, spec, RowSelection.from_arguments(arguments), masked, only_values=True)


def _versions(frame: DataFrame, table: TableSpec, arguments: dict) -> DataFrame:
    """Return the versions of one key, given its entity key or its business-key values."""
    if arguments.get("entity_key"):
        condition = F.col(quote_identifier(table.column("entity_key").name)) == F.lit(arguments["entity_key"])
    else:
        values = dict(arguments["business_key"])
        condition = all_of(
            F.col(quote_identifier(column.name)).cast("string") == F.lit(str(values[column.name]))
            for column in table.of_purpose("business_key")
        )
    return frame.where(condition).orderBy(quote_identifier(table.column("started_at").name))


_WITHOUT_TABLE: dict[str, Callable[[SparkSession, str, ReadManifest], dict]] = {
    "sql": select_statements.run,
    "try_model": trials.try_model,
    ORIGIN: _origin,
    DESCENDANTS: read_descendants,
    COMPARE: compare_tables,
    "discover": _discovered,
    "quarantine": _quarantined,
}
_OF_TABLE = ("key_search", "versions", "as_of", "changes", "profile", "quality", "sample")
