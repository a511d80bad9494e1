"""Stage frame: typed, renamed, with hashed keys and several inputs united.

The typed frame has the delivered business keys and attributes, and the operation of a feed. The hashed frame also has
the entity key, foreign keys and row hash. A snapshot or delta with several rows of an entity key is refused if they
differ.
"""

from collections.abc import Iterable, Sequence

from pyspark.sql import Column, DataFrame, Observation, SparkSession
from pyspark.sql import functions as F

from architecture.domain.tables import ColumnSpec
from loader.contract.manifest.loads import HashComponent, RawcoreLoad, ReferringRows, StageColumn, StageInput
from loader.contract.refusals import Refusal
from loader.engine.compared_texts import compared, hash_parts, types_by_name
from loader.engine.conversions import fits, typed
from loader.engine.expressions import any_of, united
from loader.engine.hashing import digest
from loader.engine.historization.model_queries import read_model
from loader.engine.historization.ranking import best_rows
from loader.engine.pyspark_types import row_of
from loader.engine.samples import SAMPLES, sample_rows
from loader.engine.sources.kept_deliveries import newest_delivery, of_delivery
from loader.engine.tables.commits import open_files
from loader.engine.tables.tables import DeltaTable
from metadata.domain.history.history_policy import COLUMN, HistoryPolicy
from metadata.domain.sql import bind_placeholders, quote_identifier, quote_text
from metadata.domain.types import parse

# Time for placeholders in the expression of a key that no run computes.
_NO_TIME = "1970-01-01T00:00:00+00:00"


def bound(sql: str, *, run_id: str, load_timestamp: str) -> Column:
    """Return an expression or filter with its placeholders replaced by the run's values."""
    values = {"load_run_id": quote_text(run_id), "load_timestamp": f"TIMESTAMP {quote_text(load_timestamp)}"}
    return F.expr(bind_placeholders(sql, values))


def typed_stage(
    session: SparkSession,
    warehouse: str,
    load: RawcoreLoad | ReferringRows,
    *,
    run_id: str,
    load_timestamp: str,
    outranked: Observation | None = None,
) -> DataFrame:
    """Read, type and unite the inputs, and choose between ranked ones; or compute the rows of a model.

    Raise Refusal VALUE_DOES_NOT_FIT.

    ``outranked`` receives the number of rows of other sources that are left out.
    """
    if isinstance(load, RawcoreLoad) and load.query is not None:
        return read_model(session, warehouse, load.query, load.name)
    fill = {"run_id": run_id, "load_timestamp": load_timestamp}
    frames = [_input_frame(session, warehouse, load, stage_input, fill) for stage_input in load.inputs]
    policy = HistoryPolicy.from_dict(load.policy)
    if policy.rank is None:
        return united(frames, DataFrame.unionByName)
    return best_rows(
        [(stage_input.rank, frame) for stage_input, frame in zip(load.inputs, frames, strict=True)],
        [column.name for column in load.table.of_purpose("business_key")],
        types=types_by_name(load.table),
        by_column=policy.rank_by == COLUMN,
        counted=outranked or Observation(),
    )


def _input_frame(
    session: SparkSession, warehouse: str, load: RawcoreLoad | ReferringRows, stage_input: StageInput, fill: dict
) -> DataFrame:
    table = DeltaTable(session, warehouse, stage_input.table.key)
    files = open_files(session, table)
    delivery = fill["run_id"] if stage_input.feed else newest_delivery(table, stage_input.table, files.version)
    if delivery is not None:
        frame = of_delivery(table.frame_as_of(files.version), stage_input.table, delivery)
    else:
        frame = files.frame()
    if stage_input.filter:
        frame = frame.where(bound(stage_input.filter, **fill))
    return _stage_columns(frame, load, stage_input, stage_input.columns, fill)


def typed_keys(frame: DataFrame, load: RawcoreLoad, stage_input: StageInput, fill: dict) -> DataFrame:
    """Return the business keys of rows of raw that have only what these need. Raise Refusal VALUE_DOES_NOT_FIT."""
    keys = {column.name for column in load.table.of_purpose("business_key")}
    columns = [column for column in stage_input.columns if column.name in keys]
    return _stage_columns(frame, load, stage_input, columns, fill)


def _stage_columns(
    frame: DataFrame,
    load: RawcoreLoad | ReferringRows,
    stage_input: StageInput,
    columns: Sequence[StageColumn],
    fill: dict,
) -> DataFrame:
    delivered = {column.name: column for column in stage_input.table.columns}
    untyped = [c.name for c in columns if _needs_typing(c.expression, c.type, delivered)]
    expressions = {column.name: bound(column.expression, **fill) for column in columns}
    if not load.delivery_checked:
        suspects = [column for column in columns if column.name in untyped]
        _refuse_misfits(frame, load.name, suspects, expressions, stage_input.options)
    return frame.select(
        *(
            (typed(expressions[c.name], c.type, stage_input.options) if c.name in untyped else expressions[c.name])
            .alias(c.name)
            for c in columns
        )
    )  # fmt: skip


def with_entity_key(
    frame: DataFrame, stage_input: StageInput, components: Sequence[HashComponent], name: str
) -> DataFrame:
    """Return the rows of a raw table with their entity key, as stage computes it, in the column ``name``."""
    delivered = {column.name: column for column in stage_input.table.columns}
    columns = {column.name: column for column in stage_input.columns}
    values = {}
    for place, part in enumerate(components):
        column = columns[part.column]
        value = bound(column.expression, run_id="", load_timestamp=_NO_TIME)
        if _needs_typing(column.expression, column.type, delivered):
            value = typed(value, column.type, stage_input.options)
        values[f"__part{place}"] = value
    keyed = frame.withColumns(values)
    types = {field.name: field.dataType for field in keyed.schema.fields}
    parts = [
        (part.key, compared(F.col(name), parse(columns[part.column].type).name), types[name])
        for part, name in zip(components, values, strict=True)
    ]
    return keyed.withColumn(name, digest(parts)).drop(*values)


def typed_columns(frame: DataFrame, columns: Sequence[StageColumn], name: str) -> DataFrame:
    """Convert text columns to their types. Raise Refusal VALUE_DOES_NOT_FIT, which names ``name``."""
    expressions = {column.name: F.expr(column.expression) for column in columns}
    _refuse_misfits(frame, name, columns, expressions, {})
    return frame.select(*(typed(expressions[c.name], c.type).alias(c.name) for c in columns))


def _needs_typing(expression: str, type_text: str, delivered: dict) -> bool:
    """Return True unless the expression is a plain column that already has the wanted type."""
    return not any(
        column.type == type_text and expression == quote_identifier(name) for name, column in delivered.items()
    )


def _refuse_misfits(
    frame: DataFrame,
    name: str,
    columns: Sequence[StageColumn],
    expressions: dict[str, Column],
    options: dict,
) -> None:
    """Raise Refusal VALUE_DOES_NOT_FIT if typing would lose values. One pass counts all columns."""
    suspects = [column for column in columns if column.type != "string"]
    if not suspects:
        return
    misfit = {c.name: ~fits(expressions[c.name], c.type, options) for c in suspects}
    counts = row_of(frame.agg(*(F.count_if(misfit[c.name]).alias(str(i)) for i, c in enumerate(suspects))).first())
    for i, column in enumerate(suspects):
        if counts[i]:
            samples = frame.where(misfit[column.name]).select(expressions[column.name].cast("string")).limit(SAMPLES)
            raise Refusal(
                "VALUE_DOES_NOT_FIT",
                f"{name}: {counts[i]} values of {column.name} do not fit {column.type}",
                column=column.name,
                count=counts[i],
                samples=tuple(row[0] for row in samples.collect()),
                hint="Correct the delivery, or change the column's type.",
            )


IS_DELETE = "__is_delete"


def flags_delete(policy: HistoryPolicy) -> Column:
    """Return the condition that a row deletes its key, by the policy's delete flag."""
    assert policy.delete_flag is not None
    return F.coalesce(F.col(quote_identifier(policy.delete_flag)), F.lit(False))


def with_hashes(frame: DataFrame, load: RawcoreLoad) -> DataFrame:
    """Return the frame's described columns with the entity key, foreign keys and row hash added.

    With a delete flag in the history policy, also with ``__is_delete``.
    """
    table, policy = load.table, HistoryPolicy.from_dict(load.policy)
    types, by_value = {field.name: field.dataType for field in frame.schema.fields}, types_by_name(table)

    def hashed(components: Iterable[HashComponent]) -> Column:
        return digest(hash_parts(components, types, by_value))

    columns = [hashed(load.entity_key).alias(column.name) for column in table.of_purpose("entity_key")]
    described = table.of_purpose("business_key", "attribute")
    columns += [F.col(quote_identifier(c.name)) for c in described if c.name in types]
    for key in load.foreign_keys:
        any_absent = any_of(F.col(quote_identifier(part.column)).isNull() for part in key.components)
        columns.append(F.when(~any_absent, hashed(key.components)).alias(key.column))
    columns.append(hashed(load.row_hash).alias(table.column("row_hash").name))
    if policy.delete_flag is not None:
        columns.append(flags_delete(policy).alias(IS_DELETE))
    return frame.select(*columns)


def key_hashes(keys: DataFrame, load: RawcoreLoad) -> DataFrame:
    """Return the distinct entity keys of typed business keys. Raise Refusal NULL_KEY."""
    types = {field.name: field.dataType for field in keys.schema.fields}
    components = hash_parts(load.entity_key, types, types_by_name(load.table))
    null_key = any_of(F.col(quote_identifier(part.column)).isNull() for part in load.entity_key)
    count = keys.where(null_key).count()
    if count:
        raise Refusal(
            "NULL_KEY",
            f"{load.name}: {count} rows of the key list have no value in their business key",
            count=count,
            samples=sample_rows(keys.where(null_key), [part.column for part in load.entity_key]),
            hint="Every business-key column of the key list needs a value.",
        )
    return keys.select(digest(components).alias(load.table.column("entity_key").name)).distinct()


def one_row_per_key(stage: DataFrame, load: RawcoreLoad) -> tuple[DataFrame, int, int]:
    """Collapse identical rows; raise Refusal for NULL keys and for rows of one key that differ.

    Return the frame, the number of rows before, and the number of rows collapsed.
    """
    entity_key = load.table.column("entity_key").name
    content = _content(stage, load)
    null_key = any_of(F.col(quote_identifier(c.name)).isNull() for c in load.table.of_purpose("business_key"))
    per_key = stage.groupBy(quote_identifier(entity_key)).agg(
        F.count(F.lit(1)).alias("n"),
        F.min(content).alias("low"),
        F.max(content).alias("high"),
        F.count_if(null_key).alias("nulls"),
    )
    totals = row_of(
        per_key.agg(
            F.coalesce(F.sum("n"), F.lit(0)).alias("rows"),
            F.count(F.lit(1)).alias("keys"),
            F.count_if(F.col("low") != F.col("high")).alias("conflicts"),
            F.coalesce(F.sum("nulls"), F.lit(0)).alias("nulls"),
        ).first()
    )
    if totals["nulls"]:
        raise Refusal(
            "NULL_KEY",
            f"{load.name}: {totals['nulls']} rows have no value in their business key",
            count=totals["nulls"],
            samples=sample_rows(
                stage.where(null_key), [c.name for c in _delivered_columns(stage, load, "business_key", "attribute")]
            ),
            hint="Every business-key column needs a value.",
        )
    if totals["conflicts"]:
        raise _conflict(stage, per_key, load, totals["conflicts"])
    duplicates = totals["rows"] - totals["keys"]
    return (stage.dropDuplicates([entity_key]) if duplicates else stage), totals["rows"], duplicates


def _content(stage: DataFrame, load: RawcoreLoad) -> Column:
    """Return the hash of all attributes, tracked or not, by which rows of a key are identical (rule 1)."""
    attributes = _delivered_columns(stage, load, "attribute")
    is_covered = {part.column for part in load.row_hash} == {column.name for column in attributes}
    if is_covered and IS_DELETE not in stage.columns:
        return F.col(quote_identifier(load.table.column("row_hash").name))
    types = {field.name: field.dataType for field in stage.schema.fields}
    compared_columns = [HashComponent(column.key, column.name) for column in attributes]
    content = digest(hash_parts(compared_columns, types, types_by_name(load.table)))
    return F.concat(F.col(IS_DELETE), content) if IS_DELETE in types else content


def _delivered_columns(stage: DataFrame, load: RawcoreLoad, *purposes: str) -> list[ColumnSpec]:
    return [column for column in load.table.of_purpose(*purposes) if column.name in stage.columns]


def _conflict(stage: DataFrame, per_key: DataFrame, load: RawcoreLoad, count: int) -> Refusal:
    entity_key = load.table.column("entity_key").name
    names = [quote_identifier(column.name) for column in load.table.of_purpose("business_key")]
    keys = per_key.where(F.col("low") != F.col("high")).select(quote_identifier(entity_key)).limit(SAMPLES)
    samples = stage.join(keys, entity_key, "left_semi").select(*names).distinct().limit(SAMPLES).collect()
    return Refusal(
        "CONFLICTING_ROWS",
        f"{load.name}: {count} keys have rows that differ",
        count=count,
        samples=tuple(", ".join(str(value) for value in row) for row in samples),
        hint="A delivery holds one row per business key.",
    )
