"""Several sources of one entity: rows of the best source, by row or by column, and counts of the others' rows."""

from random import Random

import pytest
from pyspark.sql import Observation

from loader.engine.historization.ranking import OUTRANKED, best_rows

pytestmark = pytest.mark.spark

Row = tuple[int | None, int | None, str | None]
SCHEMA = "id int, a int, b string"


def ranked(spark, sources: list[list[Row]], *, by_column: bool = False) -> tuple[list[Row], int]:
    frames = [(rank, spark.createDataFrame(rows, SCHEMA)) for rank, rows in enumerate(sources)]
    counted = Observation()
    rows = best_rows(frames, ["id"], by_column=by_column, counted=counted).collect()
    return sorted((tuple(row) for row in rows), key=repr), counted.get[OUTRANKED]


def expected(sources: list[list[Row]], *, by_column: bool) -> tuple[list[Row], int]:
    """Return the ranked result for sources with one row per key, computed by a loop."""
    best: dict[int | None, Row] = {}
    for rows in sources:
        for key, a, b in rows:
            known = best.setdefault(key, (key, a, b))
            if by_column:
                best[key] = (key, a if known[1] is None else known[1], b if known[2] is None else known[2])
    return sorted(best.values(), key=repr), sum(map(len, sources)) - len(best)


@pytest.mark.core
@pytest.mark.parametrize("by_column", [False, True])
def test_best_ranked_source_wins_by_row_or_by_column(spark, by_column: bool):
    random = Random(11)

    def source() -> list[Row]:
        keys = random.sample(range(40), 25)
        return [(key, random.choice([None, 1, 2]), random.choice([None, "x", "y"])) for key in keys]

    sources = [source(), source(), source()]
    assert ranked(spark, sources, by_column=by_column) == expected(sources, by_column=by_column)


@pytest.mark.parametrize("by_column", [False, True])
def test_ranking_keeps_conflicting_rows_of_a_source(spark, by_column: bool):
    rows, _ = ranked(spark, [[(1, 1, None), (1, 2, None)], [(1, 3, "x")]], by_column=by_column)
    assert len(set(rows)) == 2


def test_ranking_does_not_merge_conflicting_rows_of_a_lower_source(spark):
    rows, _ = ranked(spark, [[(1, 1, None)], [(1, 3, "x"), (1, 3, "y")]], by_column=True)
    assert len(rows) == 3


def test_ranking_keeps_rows_with_a_null_key(spark):
    rows, _ = ranked(spark, [[(None, 1, "x")], [(2, 1, "x")]])
    assert (None, 1, "x") in rows
