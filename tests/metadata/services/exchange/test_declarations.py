"""Tests of the import of declared loads, models and checks from metadata files."""

from pathlib import Path

import pytest

from elevata.core.errors import MetadataError
from metadata.models import QualityCheck, SourceDataset, TargetDataset
from metadata.services.exchange.metadata_files import import_metadata
from tests.factories import TargetColumnFactory, TargetDatasetFactory

pytestmark = pytest.mark.django_db

SYSTEM = """\
format: metadata/v1
system:
  short_name: shop
  name: Shop
  kind: jdbc
  location: postgresql://reader@127.0.0.1:5432/shop
  secret: ELEVATA_SOURCE_SHOP
  datasets:
    - name: orders
      location: public.orders
      format: table
      load:
        {load}
      columns:
        - {{name: id, type: integer, business_key: 1}}
        - {{name: updated_at, type: timestamp}}
"""
MODEL = """\
format: metadata/v1
dataset:
  schema: serving
  name: airports_by_country
  materialization: {materialization}
  query: |
    SELECT country, count(*) AS airports FROM rawcore.rc_air_airport GROUP BY country
  columns:
    - name: country
      business_key: 1
  checks:
    - {{type: not_null, column: country}}
    - {{type: unique, columns: [country]}}
    - {{type: accepted_values, column: country, values: [DE, FR], severity: warn}}
    - {{type: range, column: airports, min: 1}}
    - {{type: relationship, column: country, to: rawcore.rc_geo_country.code}}
    - {{type: row_count, min: 1}}
    - type: sql
      name: no_huge_country
      query: "SELECT * FROM serving.airports_by_country WHERE airports > 100000"
"""


@pytest.fixture
def take(tmp_path: Path, settings):
    settings.SOURCE_HOSTS = ("127.0.0.1",)

    def imported(text: str) -> None:
        (tmp_path / "file.yaml").write_text(text)
        import_metadata(tmp_path)

    return imported


@pytest.fixture
def airports() -> None:
    airport = TargetDatasetFactory(schema__name="rawcore", name="rc_air_airport")
    TargetColumnFactory(dataset=airport, name="country", data_type="string")
    country = TargetDatasetFactory(schema=airport.schema, name="rc_geo_country")
    TargetColumnFactory(dataset=country, name="code", data_type="string")


def orders() -> SourceDataset:
    return SourceDataset.objects.get(name="orders")


def test_imported_watermark_sets_the_intake_and_a_delta_policy(take):
    take(SYSTEM.format(load="{type: full, watermark: [updated_at], lookback: 2 days}"))
    assert orders().intake == {"watermark": ["updated_at"], "look_back": "2 days"}
    assert (orders().history_policy["input"], orders().historize) == ("delta", True)


@pytest.mark.parametrize(
    ("load", "expected"),
    [
        ("{type: full}", ("snapshot", True)),
        ("{type: append, files: new}", ("append", False)),
        ("{type: upsert}", ("delta", False)),
        ("{files: new}", ("delta", True)),
    ],
)
def test_imported_load_type_sets_input_and_historize(take, load: str, expected: tuple[str, bool]):
    take(SYSTEM.format(load=load))
    assert (orders().history_policy.get("input", "snapshot"), orders().historize) == expected


def test_an_upsert_without_a_business_key_is_refused_at_its_place(take):
    text = SYSTEM.format(load="{type: upsert}").replace(", business_key: 1", "")
    with pytest.raises(MetadataError, match="upsert needs a business key") as refused:
        take(text)
    assert refused.value.code == "no_business_key"
    assert "file.yaml" in str(refused.value)
    assert not SourceDataset.objects.exists()


def test_imported_deduplicate_sets_reading_options(take):
    take(SYSTEM.format(load="{deduplicate: {by: updated_at}}"))
    assert orders().options == {"deduplicate": "latest", "order_by": "updated_at"}


@pytest.mark.parametrize(
    ("load", "message"),
    [
        ("{type: merge}", "must be one of full, append, upsert, not 'merge'"),
        ("{deduplicate: {by: updated_at, keep: best}}", "must be one of latest, first, not 'best'"),
        ("{type: append, files: all}", "files all does not go with type append"),
        ("{marks: [id]}", "is not known here; known are type, watermark, lookback, files, deduplicate"),
    ],
)
def test_an_invalid_declaration_is_refused_with_its_place(take, load: str, message: str):
    with pytest.raises(MetadataError) as refused:
        take(SYSTEM.format(load=load))
    assert message in refused.value.one_line()
    assert "13:" in refused.value.one_line()


def test_imported_load_type_that_contradicts_the_history_policy_is_refused(take):
    text = SYSTEM.format(load="{type: append}").replace(
        "      columns:", "      history_policy: {input: cdc}\n      columns:"
    )
    with pytest.raises(MetadataError, match="says 'append', but history_policy.input is 'cdc'"):
        take(text)


def test_a_query_is_the_select_of_a_model(airports, take):
    take(MODEL.format(materialization="table"))
    model = TargetDataset.objects.get(name="airports_by_country")
    assert model.select.startswith("SELECT country, count(*)")
    assert (model.materialization, model.increment) == ("table", {})


def test_a_schema_with_the_name_of_its_layer_is_created(airports, take):
    take(MODEL.format(materialization="table"))
    assert TargetDataset.objects.get(name="airports_by_country").schema.layer == "serving"


def test_an_incremental_model_replaces_rows_by_key(airports, take):
    take(MODEL.format(materialization="incremental"))
    model = TargetDataset.objects.get(name="airports_by_country")
    assert (model.materialization, model.increment) == ("table", {"by": "key"})


def test_imported_checks_get_their_names_arguments_and_severities(airports, take):
    take(MODEL.format(materialization="table"))
    checks = {check.name: (check.kind, check.severity, check.arguments) for check in QualityCheck.objects.all()}
    select = "SELECT * FROM serving.airports_by_country WHERE airports > 100000"
    assert checks == {
        "not_null country": ("not_null", "stop", {"columns": ["country"]}),
        "unique country": ("unique", "stop", {"columns": ["country"]}),
        "accepted_values country": ("accepted_values", "warn", {"columns": ["country"], "values": ["DE", "FR"]}),
        "range airports": ("range", "stop", {"columns": ["airports"], "minimum": 1}),
        "relationship country": (
            "relationship",
            "stop",
            {"columns": ["country"], "dataset": "rawcore.rc_geo_country", "other_columns": ["code"]},
        ),
        "row_count": ("row_count", "stop", {"minimum": 1}),
        "no_huge_country": ("query", "stop", {"sql": select}),
    }
