"""One engine in a warm process: ``python -m bench.processes.worker ENGINE``.

Requests are JSON lines on standard input, of which the first configures the engine; each is answered with one
JSON line on the original standard output. All other output goes to standard error.
"""

import json
import os
import sys
from importlib import import_module
from pathlib import Path

CORES = 2

# Engine -> where its class is. Only the named one is imported: each needs other packages.
ENGINES = {
    "snapshots": ("bench.engines.snapshots", "Snapshots"),
    "ours": ("bench.engines.ours", "Ours"),
    "ours_public": ("bench.engines.ours", "OursPublic"),
    "limit": ("bench.engines.limit", "Limit"),
    "four_step": ("bench.engines.four_step", "FourStep"),
    "dbt_snapshot": ("bench.engines.dbt_snapshot", "DbtSnapshot"),
    "koheesio": ("bench.engines.koheesio_scd2", "Koheesio"),
    "datacoolie": ("bench.engines.datacoolie_scd2", "DataCoolie"),
    "small_tables": ("bench.engines.ours", "OursSmallTables"),
    "small_tables_dbt_snapshot": ("bench.engines.dbt_snapshot", "DbtSmallTables"),
    "flights": ("bench.flights.ours", "OurFlights"),
    "flights_dbt": ("bench.flights.dbt", "DbtFlights"),
}


def main(name: str) -> None:
    """Answer requests until standard input ends."""
    # The measures are about two cores, on every machine: of tasks, and of the JVM's own threads.
    os.sched_setaffinity(0, sorted(os.sched_getaffinity(0))[:CORES])
    answers = os.fdopen(os.dup(1), "w", buffering=1)
    os.dup2(2, 1)
    engine = None
    for line in sys.stdin:
        request = json.loads(line)
        try:
            if engine is None:
                engine, value = _engine(name, **request), None
            else:
                value = getattr(engine, request["do"])(**request["with"])
            answer = {"value": value}
        except Exception as failure:  # returned to the requester, who decides about it
            import traceback

            traceback.print_exc()
            answer = {"error": _one_line(failure)}
        answers.write(json.dumps(answer) + "\n")


def _engine(name: str, settings: dict[str, str], folder: str, **options):
    from bench.processes.session import start

    module, kind = ENGINES[name]
    Path(folder).mkdir(parents=True, exist_ok=True)
    return getattr(import_module(module), kind)(start(settings, name), Path(folder), **options)


def _one_line(failure: Exception) -> str:
    lines = [line.strip() for line in str(failure).splitlines() if line.strip()]
    return f"{type(failure).__name__}: {lines[0] if lines else 'no message'}"[:300]


if __name__ == "__main__":
    main(sys.argv[1])
