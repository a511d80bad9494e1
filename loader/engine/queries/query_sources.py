"""Sources of a query as temporary views, with columns masked beneath the query."""

from pyspark.errors import PySparkException
from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F
from pyspark.sql import types as T

from loader.contract.manifest.reads import Masking, QuerySource, ReadManifest
from loader.contract.refusals import Refusal
from loader.domain.queries.masking import is_masked
from loader.domain.queries.select_statements import INVALID
from loader.engine.java_errors import first_sentence
from loader.engine.queries import history_queries
from loader.engine.sources.kept_deliveries import newest_delivery, of_delivery
from loader.engine.tables.tables import DeltaTable
from metadata.domain.sql import quote_identifier


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
