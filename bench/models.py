"""Models: columns, types and lineage of many models, from nothing and after one edit."""

from collections.abc import Mapping
from time import perf_counter, process_time
from typing import Any

from bench.runner import Bound, Measure, Run
from metadata.domain.models import ModelColumn, ReadColumn, describe_select, description, statement

NOTHING, EDIT = "from nothing", "after one edit"
DATASETS, COLUMNS, LAYERS = 100, 20, 10

_TYPES = ("bigint", "string", "decimal(12,2)", "timestamp", "date", "integer")
_SHAPES = (
    """WITH open_rows AS (
  SELECT * FROM {first} WHERE c2 > 10.5 AND c1 IS NOT NULL
)
SELECT o.c0, upper(o.c1) AS c1, sum(o.c2) AS c2, max(o.c3) AS c3, min(o.c4) AS c4, count(*) AS c5
FROM open_rows o LEFT JOIN {second} s ON s.c0 = o.c0
GROUP BY o.c0, o.c1""",
    """SELECT
  f.c0,
  coalesce(f.c1, s.c1, 'none') AS c1,
  CASE WHEN f.c2 > s.c2 THEN f.c2 * 1.5 ELSE s.c2 END AS c2,
  greatest(f.c3, s.c3) AS c3,
  date_add(f.c4, 3) AS c4,
  row_number() OVER (PARTITION BY f.c1 ORDER BY f.c3 DESC) AS c5
FROM {first} f JOIN {second} s ON s.c0 = f.c0 AND s.c4 >= f.c4
WHERE EXISTS (SELECT 1 FROM {second} x WHERE x.c0 = f.c0)""",
    """SELECT c0, c1, c2, c3, c4, c5 FROM {first}
UNION ALL
SELECT c0, concat(c1, '-', c0) AS c1, round(c2, 1) AS c2, c3, last_day(c4) AS c4, c5 + 1 AS c5 FROM {second}""",
)


def take(run: Run) -> dict[str, Any]:
    datasets, models = described_datasets(), invented_models(run.options.models)
    edited = models | {"bizcore.m0": models["bizcore.m0"].replace("10.5", "11").replace("sum(o.c2)", "max(o.c2)")}
    for _ in run.rounds():
        for cached in (description._described, description._items, statement.parse_model):
            cached.cache_clear()
        run.record(NOTHING, _time(models, datasets))
        run.record(EDIT, _time(edited, datasets))
    return {}


def described_datasets() -> dict[str, tuple[ReadColumn, ...]]:
    """Return the columns of the tables that the first models read."""
    columns = tuple(ReadColumn(f"c{place}", _TYPES[place % len(_TYPES)], place > 0) for place in range(COLUMNS))
    return {f"rawcore.t{number}": columns for number in range(DATASETS)}


def invented_models(count: int) -> dict[str, str]:
    """Return SELECTs by name in layers; each reads two datasets of the layer below."""
    per_layer = max(1, count // LAYERS)
    models = {}
    for number in range(count):
        layer, place = divmod(number, per_layer)
        below = [
            f"bizcore.m{(layer - 1) * per_layer + (place + step) % per_layer}"
            if layer
            else f"rawcore.t{(2 * place + step) % DATASETS}"
            for step in (0, 1)
        ]
        models[f"bizcore.m{number}"] = _SHAPES[number % len(_SHAPES)].format(first=below[0], second=below[1])
    return models


def _time(models: Mapping[str, str], datasets: Mapping[str, tuple[ReadColumn, ...]]) -> tuple[float, float]:
    """Describe every model over the columns of those that it reads; return the seconds, elapsed and of processor."""
    begin, used = perf_counter(), process_time()
    known = dict(datasets)
    for name, text in models.items():
        known[name] = tuple(map(_read, describe_select(text, known).columns))
    return perf_counter() - begin, process_time() - used


def _read(column: ModelColumn) -> ReadColumn:
    return ReadColumn(column.name, column.type, column.nullable)


MEASURE = Measure(
    take,
    sizes={"models": 500},
    rounds=5,
    bounds=(Bound(NOTHING, NOTHING, at_most=5), Bound(EDIT, EDIT, at_most=0.3)),
)
