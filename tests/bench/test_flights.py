"""Tests that the flights benchmark builds the example's models, with the same SELECTs in dbt."""

from bench.flights.example import Flights
from bench.flights.measure import _dbt_model

FLIGHTS = Flights()


def test_models_are_built_after_those_that_they_read():
    names = [model.qualified_name for model in FLIGHTS.models]
    assert names[0] == "bizcore.flight"
    assert set(names[1:]) == {"mart.airline_delay", "mart.daily_delay", "mart.weather_delay"}


def test_incremental_dbt_model_filters_rows_from_the_newest_key_on():
    daily = next(model for model in FLIGHTS.models if model.name == "daily_delay")
    text = _dbt_model(FLIGHTS, daily)
    assert "materialized='incremental'" in text
    assert "{{ ref('flight') }} {% if is_incremental() %} WHERE flight_date >=" in text


def test_a_view_of_dbt_has_the_select_that_the_product_compiles():
    view = next(model for model in FLIGHTS.models if model.name == "airline_delay")
    select = FLIGHTS.compiled(view, lambda table: "{{ ref('flight') }}")
    assert _dbt_model(FLIGHTS, view) == f"{{{{ config(materialized='view') }}}}\n{select}\n"
