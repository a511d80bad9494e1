"""Tests of history policies when they are saved, and when a column that they name changes."""

import pytest

from elevata.core.errors import MetadataError
from metadata.models import SourceDataset, TargetDataset
from metadata.services import lifecycle, sources
from metadata.services.datasets import targets
from tests.factories import (
    SystemFactory,
    airport_source,
)

pytestmark = pytest.mark.django_db


def test_policy_with_an_unknown_column_is_refused(rawcore: TargetDataset) -> None:
    with pytest.raises(MetadataError) as refused:
        targets.update_target_dataset(dataset=rawcore, expected_version=1, history_policy={"track": ["runway"]})
    assert refused.value.field == "history_policy.track"


@pytest.fixture
def dated(rawcore: TargetDataset) -> TargetDataset:
    """Return airports dated by ``changed_at``, of which only the name opens a version."""
    targets.create_target_column(dataset=rawcore, name="changed_at", type="timestamp")
    policy = {"input": "effective", "time": "changed_at", "track": ["name"]}
    return targets.update_target_dataset(dataset=rawcore, expected_version=1, history_policy=policy)


@pytest.mark.parametrize(
    ("policy", "field"),
    [
        ({"track": ["runway"]}, "track"),
        ({"track": ["icao"]}, "track"),
        ({"input": "effective", "time": "name"}, "time"),
        ({"input": "effective", "time": "runway"}, "time"),
        ({"input": "cdc", "time": "counter", "op": "what"}, "op"),
        ({"input": "cdc", "time": "counter", "op": "counter"}, "op"),
        ({"input": "effective", "time": "counter", "late_horizon": 30}, "late_horizon"),
        ({"input": "effective", "time": "counter", "absent_keys": "deleted"}, "absent_keys"),
        ({"time": "counter"}, "time"),
        ({"input": "effective", "time": "counter", "open_end": "9999-12-31"}, "open_end"),
        ({"state_labels": {"new": "deleted"}}, "state_labels"),
        ({"views": ["newest"]}, "views"),
        ({"rank": ["air.airport"]}, "rank"),
        ({"rank": ["air.airport", "air.airport"]}, "rank"),
        ({"rank": ["air.airport", "crm.airport"]}, "rank"),
        ({"input": "delta", "rank": ["air.airport", "crm.airport"]}, "rank"),
        ({"rank_by": "column"}, "rank_by"),
    ],
)
def test_invalid_policy_is_refused_when_saved(rawcore: TargetDataset, policy: dict, field: str) -> None:
    targets.create_target_column(dataset=rawcore, name="counter", type="bigint")
    with pytest.raises(MetadataError) as refused:
        targets.update_target_dataset(dataset=rawcore, expected_version=1, history_policy=policy)
    assert (refused.value.field, refused.value.where) == (f"history_policy.{field}", "rawcore.rc_air_airport")
    rawcore.refresh_from_db()
    assert rawcore.history_policy == {}


@pytest.mark.parametrize(("column", "field"), [("changed_at", "time"), ("name", "track")])
def test_a_column_that_the_policy_names_is_not_retired(dated: TargetDataset, column: str, field: str) -> None:
    with pytest.raises(MetadataError, match="history policy of rawcore.rc_air_airport names it") as refused:
        lifecycle.retire_column(column=dated.columns.get(name=column), expected_version=1)
    assert (refused.value.code, refused.value.field) == ("in_use", f"history_policy.{field}")


def test_a_column_is_retired_once_the_policy_does_not_name_it_any_more(dated: TargetDataset) -> None:
    policy = {"input": "effective", "time": "changed_at"}
    targets.update_target_dataset(dataset=dated, expected_version=2, history_policy=policy)
    assert not lifecycle.retire_column(column=dated.columns.get(name="name"), expected_version=1).active


@pytest.mark.parametrize(
    ("column", "change", "field"),
    [
        ("changed_at", {"type": "string"}, "history_policy.time"),
        ("name", {"role": "business_key", "key_ordinal": 2}, "history_policy.track"),
    ],
)
def test_column_cannot_change_so_that_it_no_longer_fits_the_policy(
    dated: TargetDataset, column: str, change: dict, field: str
) -> None:
    with pytest.raises(MetadataError) as refused:
        targets.update_target_column(column=dated.columns.get(name=column), expected_version=1, **change)
    assert refused.value.field == field


def test_a_time_column_may_become_a_day(dated: TargetDataset) -> None:
    column = dated.columns.get(name="changed_at")
    assert str(targets.update_target_column(column=column, expected_version=1, type="date").type) == "date"


def test_operation_column_of_a_cdc_policy_is_required_in_the_input_only(
    rawcore: TargetDataset, stage: TargetDataset
) -> None:
    """Check that rawcore may lack the operation column of a feed, but its input may not."""
    targets.create_target_column(dataset=rawcore, name="counter", type="bigint")
    policy = {"input": "cdc", "time": "counter", "op": "elevation"}
    for dataset in (rawcore, stage):
        targets.update_target_column(column=dataset.columns.get(name="elevation"), expected_version=1, type="string")
    targets.update_target_dataset(dataset=rawcore, expected_version=1, history_policy=policy)
    lifecycle.retire_column(column=rawcore.columns.get(name="elevation"), expected_version=2)
    with pytest.raises(MetadataError) as refused:
        lifecycle.retire_column(column=stage.columns.get(name="elevation"), expected_version=2)
    assert (refused.value.field, refused.value.where) == ("history_policy.op", "rawcore.rc_air_airport")


def test_policy_of_a_dataset_without_history_is_not_checked(rawcore: TargetDataset) -> None:
    changes = {"historize": False, "history_policy": {"track": ["runway"]}}
    row = targets.update_target_dataset(dataset=rawcore, expected_version=1, **changes)
    with pytest.raises(MetadataError, match="no column 'runway'"):
        targets.update_target_dataset(dataset=row, expected_version=2, historize=True)


@pytest.mark.parametrize(
    "choice",
    [
        {"untracked": "keep", "track": ["name"]},
        {"open_end": "9999-12-31"},
        {"profile": "dbt"},
        {"views": ["current"]},
        {"state_labels": {"new": "first"}},
    ],
)
def test_dated_rows_without_a_history_refuse_version_options(dated: TargetDataset, choice: dict) -> None:
    policy = {"input": "effective", "time": "changed_at", **choice}
    with pytest.raises(MetadataError, match="needs versions") as refused:
        targets.update_target_dataset(dataset=dated, expected_version=2, historize=False, history_policy=policy)
    assert refused.value.field == f"history_policy.{next(iter(choice))}"


def test_policy_of_dated_rows_without_a_history_still_protects_its_columns(dated: TargetDataset) -> None:
    row = targets.update_target_dataset(dataset=dated, expected_version=2, historize=False)
    with pytest.raises(MetadataError, match="names it"):
        lifecycle.retire_column(column=row.columns.get(name="changed_at"), expected_version=1)


def test_appended_rows_have_no_history(rawcore: TargetDataset) -> None:
    with pytest.raises(MetadataError, match="append only adds rows") as refused:
        targets.update_target_dataset(dataset=rawcore, expected_version=1, history_policy={"input": "append"})
    assert refused.value.field == "history_policy.input"


def test_effective_policy_requires_a_business_key_and_append_does_not() -> None:
    source = airport_source(icao={"key_ordinal": None}, at={"data_type": "timestamp"})
    change = {"source_dataset": source, "expected_version": 1, "historize": False}
    with pytest.raises(MetadataError, match="needs a business key"):
        sources.update_source_dataset(**change, history_policy={"input": "effective", "time": "at"})
    sources.update_source_dataset(**change, history_policy={"input": "append"})


def test_an_upsert_without_a_key_is_refused() -> None:
    source = airport_source(icao={"key_ordinal": None})
    change = {"source_dataset": source, "expected_version": 1, "historize": False}
    with pytest.raises(MetadataError, match="upsert needs a business key") as refused:
        sources.update_source_dataset(**change, history_policy={"input": "delta"})
    assert (refused.value.code, refused.value.field) == ("no_business_key", "history_policy")


def test_policy_of_a_source_must_fit_its_columns() -> None:
    source = airport_source()
    with pytest.raises(MetadataError, match="no column 'gone'") as refused:
        sources.update_source_dataset(source_dataset=source, expected_version=1, history_policy={"time": "gone"})
    assert refused.value.field == "history_policy.time"


def test_source_without_columns_accepts_a_policy() -> None:
    policy = {"input": "effective", "time": "at"}
    source = sources.create_source_dataset(system=SystemFactory(), name="a", location="a", history_policy=policy)
    for name, type_, place in (("id", "string", 1), ("at", "timestamp", None)):
        sources.create_source_column(source_dataset=source, name=name, type=type_, key_ordinal=place)
    sources.update_source_dataset(source_dataset=source, expected_version=1, owner="Kim")


def test_source_without_a_business_key_refuses_a_history_policy() -> None:
    source = airport_source(name={})
    with pytest.raises(MetadataError, match="needs a business key"):
        sources.update_source_dataset(source_dataset=source, expected_version=1, history_policy={"track": ["name"]})


@pytest.fixture
def tracked() -> SourceDataset:
    return sources.update_source_dataset(
        source_dataset=airport_source(), expected_version=1, history_policy={"track": ["name"]}
    )


@pytest.mark.parametrize("change", [{"active": False}, {"integrate": False}])
def test_source_column_named_by_the_policy_cannot_be_deactivated(tracked: SourceDataset, change: dict) -> None:
    with pytest.raises(MetadataError, match="names it") as refused:
        sources.update_source_column(source_column=tracked.columns.get(name="name"), expected_version=1, **change)
    assert refused.value.field == "history_policy.track"


def test_a_sources_policy_follows_a_renamed_column(tracked: SourceDataset) -> None:
    sources.update_source_column(source_column=tracked.columns.get(name="name"), expected_version=1, name="title")
    tracked.refresh_from_db()
    assert tracked.history_policy == {"track": ["title"]}


def test_batch_files_policy_refuses_a_described_fivetran_column() -> None:
    source = airport_source(icao={"key_ordinal": 1}, _fivetran_start={"data_type": "timestamp"})
    policy = {"input": "batch_files", "time": "_fivetran_start"}
    with pytest.raises(MetadataError, match="brings column '_fivetran_start' of itself") as refused:
        sources.update_source_dataset(source_dataset=source, expected_version=1, history_policy=policy)
    assert refused.value.field == "history_policy.input"


@pytest.mark.parametrize(
    ("options", "policy", "field", "message"),
    [
        ({"order_by": "gone"}, {}, "order_by", "no column 'gone'"),
        ({"order_by": "at"}, {"input": "effective", "time": "at"}, "deduplicate", "have a time of their own"),
    ],
)
def test_deduplication_that_does_not_fit_the_source_is_refused(options, policy, field, message) -> None:
    source = airport_source(icao={"key_ordinal": 1}, at={"data_type": "timestamp"})
    with pytest.raises(MetadataError, match=message) as refused:
        sources.update_source_dataset(
            source_dataset=source,
            expected_version=1,
            options={"deduplicate": "latest", **options},
            history_policy=policy,
        )
    assert refused.value.field == f"options.{field}"


def test_deduplication_needs_an_order() -> None:
    with pytest.raises(MetadataError, match="needs order_by") as refused:
        sources.update_source_dataset(
            source_dataset=airport_source(), expected_version=1, options={"deduplicate": "latest"}
        )
    assert refused.value.field == "options.deduplicate"
