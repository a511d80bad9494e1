"""Flights benchmark (``python -m bench.flights``): the models of examples/flights by our loads and by dbt, in turns.

A round builds the models from nothing, and again after a further month of flights has arrived.
"""

import argparse
import shutil
import sys
from collections.abc import Callable
from contextlib import ExitStack, closing
from pathlib import Path
from statistics import median
from typing import Any

from architecture.domain.tables import TableSpec
from architecture.domain.views import VIEW
from bench.flights.example import Flights
from bench.problem import BenchProblem
from bench.processes.environment import PLACE, peers_python, product_python
from bench.processes.session import peer_settings, product_settings
from bench.processes.workers import Failed, Worker
from bench.report import write_result
from elevata.bootstrap.places import ROOT, SPARK_JARS, relative
from loader.management.demo_data import FLIGHTS_FILES, deliver_flights, package_folder
from metadata.domain.state import DatasetState

OUTPUT = ROOT / "bench" / "flights_results.json"
WANTED = 0.7
STAGES = ("full build", "further month")
OURS, DBT = "ours", "dbt"
# The first load is dated before the first flight, so that the history of planes has a version for each.
_LOADED = ("2012-12-31T00:00:00+00:00", "2014-01-01T00:00:00+00:00")
# Incremental models of dbt need the columns that identify a row.
_UNIQUE = {"daily_delay": ["flight_date", "origin"]}


def main(arguments: list[str]) -> int:
    options = _parser().parse_args(arguments)
    folder = PLACE / "flights"
    shutil.rmtree(folder, ignore_errors=True)
    try:
        result = _measure(options, folder)
    except (BenchProblem, Failed, OSError) as problem:
        print(f"bench: {' '.join(str(problem).split())}", file=sys.stderr)
        return 1
    finally:
        shutil.rmtree(folder, ignore_errors=True)
    write_result(options.output, result)
    for name, seconds in result["seconds"].items():
        print(f"{name:<22} {median(seconds):8.2f} s   of {', '.join(f'{value:.2f}' for value in seconds)}")
    for name, entry in result["measures"].items():
        print(f"{name:<34} {entry['ratio']:.3f}   wanted: at most {entry['wanted']}")
    print(f"written to {relative(options.output)}")
    return 0 if all(entry["ratio"] <= entry["wanted"] for entry in result["measures"].values()) else 1


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m bench.flights", description=__doc__)
    parser.add_argument(
        "--months", type=int, nargs=2, default=(11, 12), metavar="N", help="last months of both builds (11 12)"
    )
    parser.add_argument("--repeats", type=int, default=5, metavar="N", help="rounds that are counted (5)")
    parser.add_argument("--output", type=Path, default=OUTPUT, metavar="FILE", help="bench/flights_results.json")
    return parser


def _measure(options: argparse.Namespace, folder: Path) -> dict[str, Any]:
    settings = product_settings(folder / "catalog", SPARK_JARS)
    logs = PLACE / "logs"
    example = Flights()
    with ExitStack() as stack:

        def engine(name: str, python: Path, **start: Any) -> Worker:
            worker = Worker(name, python, logs / f"{name}.log", folder=str(folder / name), **start)
            return stack.enter_context(closing(worker))

        ours = engine("flights", product_python(), settings=settings)
        _deliver(ours, folder / "landing", options.months)
        dbt = engine(
            "flights_dbt",
            peers_python(),
            settings=peer_settings(settings),
            models={model.name: _dbt_model(example, model) for model in example.models},
            views=[model.name for model in example.models if model.materialization == VIEW],
            inputs=ours.ask("locations"),
        )
        rounds = [_round(ours, dbt, number) for number in range(options.repeats + 1)]
    return _result(options, rounds)


def _deliver(ours: Worker, landing: Path, months: tuple[int, int]) -> None:
    landing.mkdir(parents=True)
    for name in FLIGHTS_FILES:
        if name.endswith(".csv"):
            shutil.copy(package_folder() / name, landing)
    for load, (month, at) in enumerate(zip(months, _LOADED, strict=True), 1):
        deliver_flights(landing / "flights.csv", months=month)
        _say(f"flights up to month {month}")
        ours.ask("deliver", landing=str(landing), at=at, load=load)


def _dbt_model(example: Flights, model: DatasetState) -> str:
    """Return the file of a model: the SELECT as the product compiles it, with the names and settings of dbt."""
    own = {other.key: other.name for other in example.models}
    config: dict[str, Any] = {"materialized": model.materialization}
    if model.materialization != VIEW:
        config |= {"file_format": "delta", "location_root": "<location_root>"}
    if model.increment:
        config |= {
            "materialized": "incremental",
            "incremental_strategy": "merge",
            "unique_key": _UNIQUE[model.name],
        }

    def called(table: TableSpec) -> str:
        if table.key not in own:
            return f"source.{table.name}"
        name = f"{{{{ ref('{own[table.key]}') }}}}"
        return _newest(name, model) if table.qualified_name == model.increment.get("input") else name

    settings = ", ".join(f"{name}={value!r}" for name, value in config.items())
    return f"{{{{ config({settings}) }}}}\n{example.compiled(model, called)}\n"


def _newest(name: str, model: DatasetState) -> str:
    """Return the rows from the newest key on, as an incremental model of dbt reads them."""
    ((column, key),) = model.increment["columns"].items()
    newest = f"WHERE {column} >= (SELECT max({key}) FROM {{{{ this }}}})"
    return f"(SELECT * FROM {name} {{% if is_incremental() %}} {newest} {{% endif %}})"


def _round(ours: Worker, dbt: Worker, number: int) -> dict[str, dict[str, dict]]:
    """Build everything once with both engines, which begin in turns; return the answers by stage and engine."""
    results: dict[str, dict[str, dict]] = {}
    for load, stage in enumerate(STAGES, 1):
        for worker in (ours, dbt):
            worker.ask("start" if load == 1 else "arrive")
        builds: list[tuple[str, Callable[[], dict]]] = [
            (OURS, lambda load=load: ours.ask("build", load=load, at=_LOADED[load - 1])),
            (DBT, lambda: dbt.ask("build")),
        ]
        results[stage] = {name: build() for name, build in (builds if number % 2 else reversed(builds))}
        taken = ", ".join(f"{name} {results[stage][name]['seconds']:.2f} s" for name, _ in builds)
        _say(f"round {number}, {stage}: {taken}")
        _compare(stage, ours.ask("digests"), dbt.ask("digests"), results[stage])
    return results


def _compare(stage: str, ours: dict[str, dict], dbt: dict[str, dict], results: dict[str, dict]) -> None:
    """Raise BenchProblem unless both engines built the same rows; note the numbers of rows."""
    for name, digest in ours.items():
        if digest != dbt[name]:
            raise BenchProblem(f"{stage}: {name} is {digest} by our load and {dbt[name]} by dbt")
    results[OURS]["rows"] = {name: int(digest["rows"]) for name, digest in ours.items()}


def _result(options: argparse.Namespace, rounds: list[dict[str, dict[str, dict]]]) -> dict[str, Any]:
    counted, last = rounds[1:], rounds[-1]
    seconds = {
        f"{stage}, {engine}": [round_[stage][engine]["seconds"] for round_ in counted]
        for stage in STAGES
        for engine in (OURS, DBT)
    }
    processor = {
        f"{stage}, {engine}": [round_[stage][engine]["cpu_seconds"] for round_ in counted]
        for stage in STAGES
        for engine in (OURS, DBT)
    }
    return {
        "months": list(options.months),
        "rows": {stage: last[stage][OURS]["rows"] for stage in STAGES},
        "loads": {stage: last[stage][OURS]["loads"] for stage in STAGES},
        "seconds": seconds,
        "processor_seconds": processor,
        "measures": {
            f"{stage}: ours / dbt": {"ratio": _ratio(seconds, stage), "by_processor": _ratio(processor, stage)}
            | {"wanted": WANTED}
            for stage in STAGES
        },
    }


def _ratio(values: dict[str, list[float]], stage: str) -> float:
    return round(median(values[f"{stage}, {OURS}"]) / median(values[f"{stage}, {DBT}"]), 3)


def _say(line: str) -> None:
    print(line, file=sys.stderr, flush=True)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
