"""The example of flights: its models have the rows that pandas computes from the same files."""

import json
from pathlib import Path

import pandas as pd
import pytest

from elevata.core import data_folder
from loader.management.demo_data import PACKAGE, deliver_flights, fetch, package_folder, sorted_releases
from tests.loader.installation import make_installation, working

pytestmark = [pytest.mark.spark, pytest.mark.takes(seconds=120), pytest.mark.nightly]

# The second delivery of airports has one other name.
LOAD = """
from pathlib import Path
from loader.management.commands import demo
from loader.management.demo_data import sorted_releases
from loader.management.demo_flights import load_flights
folder = Path({folder!r})
people = demo._set_up(folder)
place = folder / "landing" / "air" / "airport.csv"
text = Path({airports!r}).read_text()
first, second = sorted_releases(["20201205", "20230303"])
place.write_text(text)
demo._load(first, people)
place.write_text(text.replace("Port Columbus", "John Glenn Columbus"))
assert demo._load(second, people)["changed"] == 1
for line in load_flights(people, folder, months=(1, 2)):
    print(line)
"""
FLIGHTS, DAILY, WEATHER = "bizcore.flight", "mart.daily_delay", "mart.weather_delay"
DESTINATION = "mart.destination_delay"


@pytest.fixture(scope="module")
def airports_file() -> Path:
    return fetch(*sorted_releases(["20201205"]), data_folder.ROOT / "cache" / PACKAGE)


@pytest.fixture(scope="module")
def example(tmp_path_factory, airports_file):
    made = make_installation(tmp_path_factory.mktemp("flights"))
    with working(made):
        made.lines = made.shell(LOAD.format(folder=str(made.folder), airports=str(airports_file))).splitlines()
        yield made


@pytest.fixture(scope="module")
def flights(tmp_path_factory) -> pd.DataFrame:
    file = tmp_path_factory.mktemp("delivered") / "flights.csv"
    deliver_flights(file, months=2)
    return pd.read_csv(file)


def query(example, text: str) -> list[list]:
    done = example.run("sql", text, "--format", "json", by="aron")
    assert done.returncode == 0, done.stderr
    return [list(row.values()) for row in json.loads(done.stdout)]


def test_a_row_of_the_joined_model_is_a_flight(example, flights):
    planes = pd.read_csv(package_folder() / "planes.csv")
    airports = pd.read_csv(package_folder() / "airports.csv")

    [counted] = query(example, f"SELECT count(*), count(manufacturer), count(destination) FROM {FLIGHTS}")

    assert counted == [
        len(flights),
        int(flights.tailnum.isin(planes.tailnum).sum()),
        int(flights.dest.isin(airports.faa).sum()),
    ]


def test_planes_that_the_delivery_lacks_have_a_ghost_row(example, flights):
    planes = pd.read_csv(package_folder() / "planes.csv")
    missing = set(flights.tailnum.dropna()) - set(planes.tailnum)

    [[ghosts]] = query(example, "SELECT count(*) FROM rawcore.rc_nyc_plane WHERE manufacturer IS NULL")

    assert ghosts == len(missing)


def test_sums_by_airport_are_those_of_pandas(example, flights):
    by_origin = flights.groupby("origin")
    expected = [
        [origin, len(rows), int(rows.dep_time.isna().sum()), int(rows.dep_delay.sum())] for origin, rows in by_origin
    ]
    select = "SELECT origin, sum(flights), sum(cancelled), sum(dep_delay_minutes)"

    assert query(example, f"{select} FROM {DAILY} GROUP BY origin ORDER BY origin") == expected


def test_the_second_load_computes_only_days_with_changed_flights(example):
    first, second = example.lines[-2:]

    assert "days computed" not in first
    assert "28 days computed" in second


def test_the_view_counts_every_flight_once(example, flights):
    assert query(example, "SELECT sum(flights) FROM mart.airline_delay") == [[len(flights)]]


def test_flights_are_joined_with_the_weather_of_their_hour(example, flights):
    weather = pd.read_csv(package_folder() / "weather.csv")
    joined = flights.merge(weather[["origin", "time_hour", "visib"]], how="left", on=["origin", "time_hour"])

    [[unknown]] = query(example, f"SELECT sum(flights) FROM {WEATHER} WHERE visibility = 'unknown'")

    assert unknown == int(joined.visib.isna().sum())


def test_the_checks_find_the_gaps_that_pandas_finds(example, flights):
    planes, weather = (pd.read_csv(package_folder() / f"{name}.csv") for name in ("planes", "weather"))
    hours = weather[["origin", "time_hour"]].assign(known=True)
    joined = flights.merge(hours, how="left", on=["origin", "time_hour"])
    expected = {
        "the plane is described": (~flights.tailnum.isin(planes.tailnum)).sum(),
        "flights departed": flights.dep_delay.isna().sum(),
        "departed flights arrived where they were to": (flights.dep_time.notna() & flights.arr_delay.isna()).sum(),
        "the weather of the hour is known": joined.known.isna().sum(),
    }
    text = """
import json
from loader.models import CheckResult
results = CheckResult.objects.filter(dataset_name__in=["bizcore.flight", "mart.destination_delay"]).order_by("pk")
print(json.dumps({result.check_name: [result.outcome, result.failed] for result in results}))
"""
    outcomes = {name: ["warned", int(count)] for name, count in expected.items()}
    assert json.loads(example.shell(text)) == outcomes | {
        "the airport is described": ["passed", 0],
        "the history reaches back to the flights": ["warned", flights.dest.nunique()],
        "each delay is counted once": ["passed", None],
    }


def test_destinations_have_the_first_names_in_the_history_of_airports(example, flights, airports_file):
    airports = pd.read_csv(airports_file, keep_default_na=False)
    named = flights.merge(airports[["iata", "name"]], how="left", left_on="dest", right_on="iata")
    expected = [
        [*names, len(rows), len(rows), int(rows.arr_delay.sum())]
        for names, rows in named.groupby(["dest", "name"], dropna=False)
    ]
    select = "SELECT dest, airport, flights, flights_before_history, arr_delay_minutes"

    assert query(example, f"{select} FROM {DESTINATION} ORDER BY dest") == expected


def test_the_daily_mart_is_a_contract_in_force_that_a_dashboard_reads(example):
    text = """
from architecture.selectors.data_contracts import contracts_of
from architecture.services.environments import current_environment
from metadata.models import TargetDataset
row = TargetDataset.objects.get(name="daily_delay")
contract = contracts_of([row], environment=current_environment())[str(row.key)]
print(contract.in_force.version, contract.change, [str(exposure) for exposure in row.exposures.all()])
"""
    assert example.shell(text).strip() == "1.0 None ['mart.daily_delay.Delay board']"
