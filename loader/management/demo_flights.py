"""Flights from New York in 2013 in the demo: five sources, and models of them and of the airports example."""

from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path

from django.conf import settings

from elevata.accounts.actors import acting_as
from elevata.accounts.cli import CommandExit
from elevata.jobs import states
from loader.contract.refusals import Refusal
from loader.management.demo_data import deliver_flights, package_folder
from loader.management.demo_work import DemoUsers, carry_out
from loader.management.waiting import follow
from loader.models import LoadRun
from loader.services.loads.load_runs import request_load_run
from metadata.domain.scope import DATASET, SELECTION, Scope
from metadata.models import SourceDataset
from metadata.services.datasets.generation import generate_targets
from metadata.services.exchange.metadata_files import import_metadata

EXAMPLE = Path(settings.BASE_DIR) / "examples" / "flights"
FILES = ("airlines", "airports", "planes", "weather")
VIEW = "mart.airline_delay"
DAILY = "mart.daily_delay"
# The flights come in two deliveries: those up to October, then all of the year. The first load is dated before the
# first flight, so that the history of planes has a version for each of them. The airports keep the dates of their
# releases, which are later: the model that joins them takes the first release for earlier flights.
_MONTHS = (10, 12)
_FIRST, _SECOND = datetime(2012, 12, 31, tzinfo=UTC), datetime(2014, 1, 1, tzinfo=UTC)
_FLIGHTS = "+bizcore.flight+ +mart.weather_delay"


def load_flights(people: DemoUsers, folder: Path, months: tuple[int, int] = _MONTHS) -> Iterator[str]:
    """Import the example, load both deliveries and create the view; yield a line about each load.

    The airports example must be imported and loaded. ``months`` are the last months of the two deliveries.
    """
    landing = folder / "landing" / "nyc"
    landing.mkdir(parents=True)
    for name in FILES:
        (landing / f"{name}.csv").write_bytes((package_folder() / f"{name}.csv").read_bytes())
    with acting_as(people.editor.user):
        import_metadata(EXAMPLE / "systems")
        for source in SourceDataset.objects.filter(system__short_name="nyc"):
            generate_targets(source_dataset=source)
        for name in ("references.yaml", "schemas.yaml", "models", "airports"):
            import_metadata(EXAMPLE / name)
    deliver_flights(landing / "flights.csv", months=months[0])
    yield _line(_load("demo-flights-1", _FIRST, people))
    deliver_flights(landing / "flights.csv", months=months[1])
    yield _line(_load("demo-flights-2", _SECOND, people))
    carry_out(scope=Scope(DATASET, VIEW, target_only=True), people=people, folder=folder)


def _load(run_id: str, at: datetime, people: DemoUsers) -> LoadRun:
    scope = Scope(SELECTION, _FLIGHTS)
    requested = request_load_run(scope=scope, load_timestamp=at, run_id=run_id, user=people.operator.user)
    if requested.notice:
        raise CommandExit(1, requested.notice)
    run = follow(requested.run, lambda *_: None)
    if run.status != states.SUCCEEDED:
        message = Refusal.from_json(run.error).one_line() if run.error else run.status
        raise CommandExit(1, f"the flights were not loaded: {message}")
    return run


def _line(run: LoadRun) -> str:
    """Return what a run loaded, in one line."""
    counts = {row.qualified_name: row.counts for row in run.datasets.all()}
    flights, daily = counts["rawcore.rc_nyc_flight"], counts[DAILY]
    computed = f", {daily['keys']:,} days computed" if "keys" in daily else ""
    return f"{flights['rows']:,} flights, {daily['rows']:,} rows in {DAILY}{computed}, {run.seconds:.1f} s"
