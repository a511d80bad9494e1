"""The example of flights: its models have the rows that pandas computes from the same files."""

import json

import pandas as pd
import pytest

from loader.management.demo_data import deliver_flights, package_folder
from tests.loader.installation import make_installation, working

pytestmark = [pytest.mark.spark, pytest.mark.takes(seconds=120), pytest.mark.nightly]

LOAD = """
from pathlib import Path
from loader.management.demo_flights import load_flights
from loader.management.demo_work import DemoUsers
for line in load_flights(DemoUsers.made(), Path({folder!r}), months=(1, 2)):
    print(line)
"""
FLIGHTS, DAILY, WEATHER = "bizcore.flight", "mart.daily_delay", "mart.weather_delay"


@pytest.fixture(scope="module")
def example(tmp_path_factory):
    made = make_installation(tmp_path_factory.mktemp("flights"))
    with working(made):
        made.lines = made.shell(LOAD.format(folder=str(made.folder))).splitlines()
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


def test_flights_and_weather_meet_in_their_hour(example, flights):
    weather = pd.read_csv(package_folder() / "weather.csv")
    joined = flights.merge(weather[["origin", "time_hour", "visib"]], how="left", on=["origin", "time_hour"])

    [[unknown]] = query(example, f"SELECT sum(flights) FROM {WEATHER} WHERE visibility = 'unknown'")

    assert unknown == int(joined.visib.isna().sum())


def test_the_daily_mart_is_a_contract_in_force_that_a_dashboard_reads(example):
    text = """
from architecture.selectors.data_contracts import contracts_of
from architecture.services.states import current_environment
from metadata.models import TargetDataset
row = TargetDataset.objects.get(name="daily_delay")
contract = contracts_of([row], environment=current_environment())[str(row.key)]
print(contract.in_force.version, contract.change, [str(exposure) for exposure in row.exposures.all()])
"""
    assert example.shell(text).strip() == "1.0 None ['mart.daily_delay.Delay board']"
