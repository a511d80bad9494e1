"""Provenance of delivered rows: the file, page, partition, table or query of each row, and its number therein.

No row is shuffled for its number. Parquet's reader and the formats that are read record by record number the rows of a
file themselves. Otherwise Spark numbers the rows of a task in order; the numbers at which the blocks of a file begin,
and the rows in them, give the rest. These are counted over the rows that the checks have cached, or over the files
again (ORC, Avro).
"""

from dataclasses import replace

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from loader.domain.sources.provenance import SOURCE_FILE, SOURCE_ROW
from loader.engine.sources.file_paths import decoded_path
from loader.engine.sources.files import DeliveredFile, from_uri
from loader.engine.sources.opened import BLOCK, FILE, ORDER, Opened

_NAME, _OFFSET = "\ue000name", "\ue000offset"
_BLOCK_OF = {FILE: "\ue000file", BLOCK: "\ue000block"}


def with_provenance(opened: Opened, delivered: DataFrame, rows: DataFrame) -> DataFrame:
    """Return ``rows``, which are some of the numbered rows ``delivered``, with the columns of their provenance."""
    if not opened.reader.has_files:
        file, number = opened.own_provenance()
        return rows.withColumns({SOURCE_FILE: file, SOURCE_ROW: number})
    if opened.reader.has_row_numbers:
        return rows.withColumns({SOURCE_FILE: _name(opened.files), SOURCE_ROW: F.col(ORDER)})
    # Rows outside a window are not delivered, but count.
    offsets = _offsets(delivered if opened.condition is None else replace(opened, condition=None).frame(numbered=True))
    by_path = {file.path: file.name for file in opened.files}
    names = {uri: by_path[from_uri(uri)] for uri, _ in offsets}
    if len(offsets) < 2:
        name, offset = next(((names[uri], offset) for (uri, _), offset in offsets.items()), ("", 0))
        return rows.withColumns({SOURCE_FILE: F.lit(name), SOURCE_ROW: F.col(ORDER) + offset})
    blocks = rows.sparkSession.createDataFrame(
        [(uri, block, names[uri], offset) for (uri, block), offset in offsets.items()],
        f"`{_BLOCK_OF[FILE]}` STRING, `{_BLOCK_OF[BLOCK]}` BIGINT, `{_NAME}` STRING, `{_OFFSET}` BIGINT",
    )
    by = [BLOCK] if len(names) == 1 else [FILE, BLOCK] if opened.reader.is_split else [FILE]
    same = [F.col(name) == F.col(_BLOCK_OF[name]) for name in by]
    joined = rows.join(F.broadcast(blocks), same, "left")
    return joined.withColumns({SOURCE_FILE: F.col(_NAME), SOURCE_ROW: F.col(ORDER) + F.col(_OFFSET)})


def _name(files: tuple[DeliveredFile, ...]) -> Column:
    """Return the name of each row's file, cut from the URI that Spark gives."""
    if len(files) == 1:
        return F.lit(files[0].name)
    # A link may lead to a file elsewhere, whose name is its whole path.
    inside = next((f.path.removesuffix(f.name) for f in files if f.path.endswith(f"/{f.name}")), "")
    is_local = files[0].path.startswith("file:")
    path = decoded_path(F.col(FILE), files)
    if is_local:
        path = F.concat(F.lit("file:/"), F.ltrim(F.substr(path, F.lit(6)), F.lit("/")))
    whole = F.substr(path, F.lit(len("file:") + 1)) if is_local else path
    if not inside:
        return whole
    return F.when(F.startswith(path, F.lit(inside)), F.substr(path, F.lit(len(inside) + 1))).otherwise(whole)


def _offsets(delivered: DataFrame) -> dict[tuple[str, int], int]:
    """Return by URI and block what is added to the order of a row to give its number in the file."""
    blocks = delivered.groupBy(FILE, BLOCK).agg(F.min(ORDER).alias("first"), F.count(F.lit(1)).alias("rows")).collect()
    offsets, before, file = {}, 0, ""
    for uri, block, first, rows in sorted(blocks):
        before = before if uri == file else 0
        offsets[uri, block] = before + 1 - first
        before, file = before + rows, uri
    return offsets
