"""Benchmark of models (``python -m bench.models``): columns, types and lineage of many models, and after one edit."""

import argparse
import sys
from collections.abc import Mapping
from pathlib import Path
from statistics import median
from time import perf_counter, process_time

from bench.report import write_result
from elevata.bootstrap.places import ROOT, relative
from metadata.domain.models import ModelColumn, ReadColumn, describe_select, description, statement

OUTPUT = ROOT / "bench" / "models_results.json"
TARGETS = {"from nothing": 5.0, "after one edit": 0.3}
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


def main(arguments: list[str]) -> int:
    options = _parser().parse_args(arguments)
    datasets, models = described_datasets(), invented_models(options.models)
    seconds: dict[str, list[tuple[float, float]]] = {name: [] for name in TARGETS}
    for _ in range(options.repeats):
        for cached in (description._described, description._items, statement.parse_model):
            cached.cache_clear()
        seconds["from nothing"].append(_time(models, datasets))
        edited = models | {"bizcore.m0": models["bizcore.m0"].replace("10.5", "11").replace("sum(o.c2)", "max(o.c2)")}
        seconds["after one edit"].append(_time(edited, datasets))
    elapsed = {name: [pair[0] for pair in pairs] for name, pairs in seconds.items()}
    processor = {name: [pair[1] for pair in pairs] for name, pairs in seconds.items()}
    result = {"models": options.models, "seconds": elapsed, "processor_seconds": processor}
    write_result(options.output, result)
    for name, wanted in TARGETS.items():
        times = f"{median(elapsed[name]):7.3f} s, {median(processor[name]):7.3f} s of processor time"
        print(f"{name:<16} {times}   wanted: at most {wanted} s")
    print(f"written to {relative(options.output)}")
    return 0


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m bench.models", description=__doc__)
    parser.add_argument("--models", type=int, default=500, metavar="N", help="number of models (500)")
    parser.add_argument("--repeats", type=int, default=5, metavar="N", help="rounds (5)")
    parser.add_argument("--output", type=Path, default=OUTPUT, metavar="FILE", help="bench/models_results.json")
    return parser


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


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
