"""Flights: the models of examples/flights by our loads and by dbt, in turns.

A round builds the models from nothing with the flights up to the first of MONTHS, and again after those up to the
second one have arrived.
"""

import shutil
from collections.abc import Callable
from contextlib import closing
from pathlib import Path
from typing import Any

from architecture.domain.tables import TableSpec
from architecture.domain.views import VIEW
from bench.flights.example import Flights
from bench.processes.environment import PLACE, peers_python, product_python
from bench.processes.session import peer_settings, product_settings
from bench.processes.workers import Worker
from bench.runner import Bound, Measure, Run, require, say
from elevata.bootstrap.places import SPARK_JARS
from loader.management.demo_data import FLIGHTS_FILES, deliver_flights, package_folder
from metadata.domain.state import DatasetState

STAGES = ("full build", "further month")
OURS, DBT = "ours", "dbt"
# The first load is dated before the first flight, so that the history of planes has a version for each.
_LOADED = ("2012-12-31T00:00:00+00:00", "2014-01-01T00:00:00+00:00")
# Incremental models of dbt need the columns that identify a row.
_UNIQUE = {"daily_delay": ["flight_date", "origin"]}


def take(run: Run) -> dict[str, Any]:
    settings = product_settings(run.folder / "catalog", SPARK_JARS)
    example, facts = Flights(), {"rows": {}, "loads": {}}

    def engine(name: str, python: Path, **start: Any) -> Worker:
        log = PLACE / "logs" / f"{name}.log"
        return run.enter(closing(Worker(name, python, log, folder=str(run.folder / name), **start)))

    ours = engine("flights", product_python(), settings=settings)
    _deliver(ours, run.folder / "landing", run.options.months)
    dbt = engine(
        "flights_dbt",
        peers_python(),
        settings=peer_settings(settings),
        models={model.name: _dbt_model(example, model) for model in example.models},
        views=[model.name for model in example.models if model.materialization == VIEW],
        inputs=ours.ask("locations"),
    )
    for number in run.rounds():
        for load, stage in enumerate(STAGES, 1):
            for worker in (ours, dbt):
                worker.ask("start" if load == 1 else "arrive")
            builds: list[tuple[str, Callable[[], dict]]] = [
                (OURS, lambda load=load: ours.ask("build", load=load, at=_LOADED[load - 1])),
                (DBT, lambda: dbt.ask("build")),
            ]
            for name, build in builds if number % 2 else reversed(builds):
                answer = build()
                run.record(f"{stage}, {name}", (answer["seconds"], answer["cpu_seconds"]))
                facts["loads"] |= {stage: answer["loads"]} if name == OURS else {}
            digests = ours.ask("digests")
            require(digests, dbt.ask("digests"), f"{stage}: rows of ours beside dbt's")
            facts["rows"][stage] = {name: int(digest["rows"]) for name, digest in digests.items()}
    return facts


def _deliver(ours: Worker, landing: Path, months: tuple[int, int]) -> None:
    landing.mkdir(parents=True)
    for name in FLIGHTS_FILES:
        if name.endswith(".csv"):
            shutil.copy(package_folder() / name, landing)
    for load, (month, at) in enumerate(zip(months, _LOADED, strict=True), 1):
        deliver_flights(landing / "flights.csv", months=month)
        say(f"flights up to month {month}")
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


MEASURE = Measure(
    take,
    sizes={"months": (11, 12)},
    rounds=5,
    bounds=tuple(Bound(f"{stage}: ours / dbt", f"{stage}, {OURS}", f"{stage}, {DBT}", 0.7) for stage in STAGES),
)
