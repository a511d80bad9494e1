"""Creating, changing, renaming, retiring: rules, locks, and what the database refuses by itself."""

import pytest
from django.db import IntegrityError, transaction

from metadata.domain.errors import MetadataError, StaleVersion
from metadata.models import SourceDataset, TargetColumn, TargetDataset
from metadata.services import lifecycle, sources, targets
from metadata.services.generation import generate_targets
from tests.factories import (
    ColumnInputFactory,
    DatasetInputFactory,
    SourceColumnFactory,
    SourceDatasetFactory,
    SystemFactory,
    TargetColumnFactory,
    TargetDatasetFactory,
    TargetSchemaFactory,
    airport_source,
)

pytestmark = pytest.mark.django_db


@pytest.fixture
def rawcore() -> TargetDataset:
    generate_targets(source_dataset=airport_source())
    return TargetDataset.objects.get(name="rc_air_airport")


@pytest.fixture
def stage(rawcore: TargetDataset) -> TargetDataset:
    return TargetDataset.objects.get(name="stg_air_airport")


# --- optimistic lock -------------------------------------------------------------------------


def test_every_write_moves_the_version() -> None:
    system = SystemFactory()
    assert sources.update_system(system=system, expected_version=1, owner="Kim").version == 2


def test_a_change_that_changes_nothing_keeps_the_version() -> None:
    system = SystemFactory(owner="Kim")
    assert sources.update_system(system=system, expected_version=1, owner="Kim").version == 1


def test_a_stale_version_is_refused() -> None:
    system = SystemFactory()
    sources.update_system(system=system, expected_version=1, owner="Kim")
    with pytest.raises(StaleVersion, match="somebody else"):
        sources.update_system(system=system, expected_version=1, owner="Alex")


def test_a_row_that_is_gone_is_refused() -> None:
    column = SourceColumnFactory()
    type(column).objects.all().delete()
    with pytest.raises(MetadataError, match="does not exist any more"):
        sources.update_source_column(source_column=column, expected_version=1, owner="Kim")


def test_an_unknown_field_is_refused() -> None:
    with pytest.raises(MetadataError) as refused:
        sources.update_system(system=SystemFactory(), expected_version=1, colour="red")
    assert refused.value.field == "colour"


# --- sources ---------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("values", "field"),
    [
        ({"short_name": "a b"}, "short_name"),
        ({"short_name": "x" * 21}, "short_name"),
        ({"kind": "ftp"}, "kind"),
        ({"location": "{{ home }}/x"}, "location"),
        ({"tags": "one"}, "tags"),
    ],
)
def test_a_system_that_makes_no_sense_is_refused(values: dict, field: str) -> None:
    with pytest.raises(MetadataError) as refused:
        sources.create_system(**{"name": "A", "short_name": "a", **values})
    assert refused.value.field == field


def test_short_names_that_differ_only_by_case_are_refused() -> None:
    SystemFactory(short_name="air")
    with pytest.raises(MetadataError, match="taken"):
        sources.create_system(name="Other", short_name="AIR")


@pytest.mark.parametrize(
    ("values", "field"),
    [
        ({"name": " "}, "name"),
        ({"location": ""}, "location"),
        ({"format": "xml"}, "format"),
        ({"options": {"delimiter": ";;"}}, "options.delimiter"),
        ({"options": {"header": "yes"}}, "options.header"),
        ({"options": {"sep": ";"}}, "options.sep"),
        ({"format": "parquet", "options": {"encoding": "utf-8"}}, "options.encoding"),
        ({"history_policy": {"input": "full"}}, "history_policy.input"),
    ],
)
def test_a_source_dataset_that_makes_no_sense_is_refused(values: dict, field: str) -> None:
    with pytest.raises(MetadataError) as refused:
        sources.create_source_dataset(**{"system": SystemFactory(), "name": "orders", "location": "o.csv", **values})
    assert refused.value.field == field


def test_a_short_name_follows_from_the_name() -> None:
    row = sources.create_source_dataset(system=SystemFactory(), name="Sales Orders (EU)", location="o.csv")
    assert row.short_name == "sales_orders_eu"


def test_a_policy_is_kept_in_its_normal_form() -> None:
    policy = {"input": "snapshot", "deletes": "close", "time": "load"}
    row = sources.create_source_dataset(system=SystemFactory(), name="a", location="a.csv", history_policy=policy)
    assert row.history_policy == {}


def test_source_columns_that_differ_only_by_case_are_refused() -> None:
    dataset = SourceColumnFactory(name="id").dataset
    with pytest.raises(MetadataError, match="differs from it only by case"):
        sources.create_source_column(source_dataset=dataset, name="ID", type="string")


def test_two_columns_with_one_place_in_the_key_are_refused() -> None:
    dataset = SourceColumnFactory(key_ordinal=1).dataset
    with pytest.raises(MetadataError, match="this place in the business key"):
        sources.create_source_column(source_dataset=dataset, name="other", type="string", key_ordinal=1)


def test_a_name_used_again_is_another_thing() -> None:
    column = SourceColumnFactory(name="a")
    sources.update_source_column(source_column=column, expected_version=1, name="b")
    again = sources.create_source_column(source_dataset=column.dataset, name="a", type="string")
    assert again.key != column.key


# --- targets ---------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("values", "field"),
    [
        ({"name": "a_hist"}, "name"),
        ({"name": "größe"}, "name"),
        ({"materialization": "index"}, "materialization"),
        ({"filter": "select 1"}, "filter"),
        ({"filter": "other = 1"}, "filter"),
        ({"history_policy": {"tine": "load"}}, "history_policy.tine"),
    ],
)
def test_a_target_dataset_that_makes_no_sense_is_refused(values: dict, field: str) -> None:
    with pytest.raises(MetadataError) as refused:
        targets.create_target_dataset(**{"schema": TargetSchemaFactory(), "name": "a", **values})
    assert refused.value.field == field


def test_a_view_has_no_history() -> None:
    with pytest.raises(MetadataError, match="Only a table"):
        targets.create_target_dataset(schema=TargetSchemaFactory(), name="a", materialization="view", historize=True)


def test_stage_keeps_no_history() -> None:
    with pytest.raises(MetadataError, match="keeps no history"):
        targets.create_target_dataset(schema=TargetSchemaFactory(name="stage"), name="a", historize=True)


def test_a_historized_dataset_has_a_history_row() -> None:
    row = targets.create_target_dataset(schema=TargetSchemaFactory(), name="rc_a", historize=True)
    assert row.history.name == "rc_a_hist"


def test_a_name_that_differs_only_by_case_is_refused(rawcore: TargetDataset) -> None:
    with pytest.raises(MetadataError, match="name of another dataset"):
        targets.create_target_dataset(schema=rawcore.schema, name="RC_Air_Airport")


@pytest.mark.parametrize("name", ["", "load_run_id", "rc_air_airport_key", "version_state", "a\tb", "ICAO"])
def test_a_column_name_that_cannot_be_is_refused(rawcore: TargetDataset, name: str) -> None:
    with pytest.raises(MetadataError) as refused:
        targets.create_target_column(dataset=rawcore, name=name, type="string")
    assert refused.value.field == "name"


def test_a_history_dataset_gets_no_columns(rawcore: TargetDataset) -> None:
    with pytest.raises(MetadataError, match="are its base's"):
        targets.create_target_column(dataset=rawcore.history, name="x", type="string")


def test_raw_takes_no_expressions(rawcore: TargetDataset) -> None:
    raw = TargetDataset.objects.get(name="raw_air_airport")
    with pytest.raises(MetadataError, match="without expressions"):
        targets.create_target_column(dataset=raw, name="x", type="string", expression="1")


def test_an_expression_brings_its_inputs(rawcore: TargetDataset) -> None:
    row = targets.create_target_column(dataset=rawcore, name="label", type="string", expression="icao || ' ' || name")
    assert [item.upstream_column.name for item in row.inputs.all()] == ["icao", "name"]


def test_an_expression_over_columns_from_elsewhere_is_refused(rawcore: TargetDataset) -> None:
    with pytest.raises(MetadataError, match="names 'runway'"):
        targets.create_target_column(dataset=rawcore, name="x", type="string", expression="upper(runway)")


def test_a_column_input_from_elsewhere_is_refused(rawcore: TargetDataset) -> None:
    stranger = TargetColumnFactory()
    column = rawcore.columns.get(name="name")
    with pytest.raises(MetadataError, match="does not belong to an input"):
        targets.set_column_inputs(column=column, expected_version=1, inputs=[stranger])


def test_a_dataset_cannot_read_itself_over_others(rawcore: TargetDataset, stage: TargetDataset) -> None:
    source = [item.source or item.upstream for item in stage.inputs.all()]
    with pytest.raises(MetadataError, match="would read itself"):
        targets.set_dataset_inputs(dataset=stage, expected_version=1, inputs=[*source, rawcore.history])


def test_an_input_that_columns_still_read_stays(rawcore: TargetDataset) -> None:
    with pytest.raises(MetadataError, match="columns still read"):
        targets.set_dataset_inputs(dataset=rawcore, expected_version=1, inputs=[])


def test_a_policy_over_a_column_that_is_not_there_is_refused(rawcore: TargetDataset) -> None:
    with pytest.raises(MetadataError) as refused:
        targets.update_target_dataset(dataset=rawcore, expected_version=1, history_policy={"track": ["runway"]})
    assert refused.value.field == "history_policy.track"


@pytest.fixture
def dated(rawcore: TargetDataset) -> TargetDataset:
    """Airports dated by ``changed_at``, of which only the name opens a version."""
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
    ],
)
def test_a_policy_that_makes_no_sense_is_refused_when_it_is_saved(
    rawcore: TargetDataset, policy: dict, field: str
) -> None:
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
def test_a_column_stays_fit_for_the_policy_that_names_it(
    dated: TargetDataset, column: str, change: dict, field: str
) -> None:
    with pytest.raises(MetadataError) as refused:
        targets.update_target_column(column=dated.columns.get(name=column), expected_version=1, **change)
    assert refused.value.field == field


def test_a_time_column_may_become_a_day(dated: TargetDataset) -> None:
    column = dated.columns.get(name="changed_at")
    assert str(targets.update_target_column(column=column, expected_version=1, type="date").type) == "date"


def test_a_feeds_operation_may_stay_in_the_input(rawcore: TargetDataset, stage: TargetDataset) -> None:
    """It says what a row does; rawcore need not keep it. The input then has to."""
    targets.create_target_column(dataset=rawcore, name="counter", type="bigint")
    policy = {"input": "cdc", "time": "counter", "op": "elevation"}
    for dataset in (rawcore, stage):
        targets.update_target_column(column=dataset.columns.get(name="elevation"), expected_version=1, type="string")
    targets.update_target_dataset(dataset=rawcore, expected_version=1, history_policy=policy)
    lifecycle.retire_column(column=rawcore.columns.get(name="elevation"), expected_version=2)
    with pytest.raises(MetadataError) as refused:
        lifecycle.retire_column(column=stage.columns.get(name="elevation"), expected_version=2)
    assert (refused.value.field, refused.value.where) == ("history_policy.op", "rawcore.rc_air_airport")


def test_nothing_is_asked_of_the_policy_of_a_dataset_without_history(rawcore: TargetDataset) -> None:
    changes = {"historize": False, "history_policy": {"track": ["runway"]}}
    row = targets.update_target_dataset(dataset=rawcore, expected_version=1, **changes)
    with pytest.raises(MetadataError, match="no column 'runway'"):
        targets.update_target_dataset(dataset=row, expected_version=2, historize=True)


def test_a_policy_of_a_source_goes_with_its_columns() -> None:
    source = airport_source()
    with pytest.raises(MetadataError, match="no column 'gone'") as refused:
        sources.update_source_dataset(source_dataset=source, expected_version=1, history_policy={"time": "gone"})
    assert refused.value.field == "history_policy.time"


def test_a_source_may_have_its_policy_before_its_columns() -> None:
    policy = {"input": "effective", "time": "at"}
    source = sources.create_source_dataset(system=SystemFactory(), name="a", location="a", history_policy=policy)
    for name, type_, place in (("id", "string", 1), ("at", "timestamp", None)):
        sources.create_source_column(source_dataset=source, name=name, type=type_, key_ordinal=place)
    sources.update_source_dataset(source_dataset=source, expected_version=1, owner="Kim")


def test_a_source_without_a_key_takes_no_policy() -> None:
    source = airport_source(name={})
    with pytest.raises(MetadataError, match="needs a business key"):
        sources.update_source_dataset(source_dataset=source, expected_version=1, history_policy={"track": ["name"]})


@pytest.fixture
def tracked() -> SourceDataset:
    return sources.update_source_dataset(
        source_dataset=airport_source(), expected_version=1, history_policy={"track": ["name"]}
    )


@pytest.mark.parametrize("change", [{"active": False}, {"integrate": False}])
def test_a_source_column_that_the_policy_names_is_not_put_out_of_use(tracked: SourceDataset, change: dict) -> None:
    with pytest.raises(MetadataError, match="names it") as refused:
        sources.update_source_column(source_column=tracked.columns.get(name="name"), expected_version=1, **change)
    assert refused.value.field == "history_policy.track"


def test_a_sources_policy_follows_a_renamed_column(tracked: SourceDataset) -> None:
    sources.update_source_column(source_column=tracked.columns.get(name="name"), expected_version=1, name="title")
    tracked.refresh_from_db()
    assert tracked.history_policy == {"track": ["title"]}


def test_batch_files_describe_no_column_of_their_own() -> None:
    source = airport_source(icao={"key_ordinal": 1}, _fivetran_start={"data_type": "timestamp"})
    policy = {"input": "batch_files", "time": "_fivetran_start"}
    with pytest.raises(MetadataError, match="brings column '_fivetran_start' of itself") as refused:
        sources.update_source_dataset(source_dataset=source, expected_version=1, history_policy=policy)
    assert refused.value.field == "history_policy.input"


# --- renames ---------------------------------------------------------------------------------


def test_a_rename_keeps_the_former_name(rawcore: TargetDataset) -> None:
    assert rename(rawcore, "airport").former_names == ["rc_air_airport"]


def test_the_newest_former_name_is_last(rawcore: TargetDataset) -> None:
    assert rename(rename(rawcore, "one"), "two").former_names == ["rc_air_airport", "one"]


def test_a_name_in_use_again_is_no_former_name(rawcore: TargetDataset) -> None:
    assert rename(rename(rawcore, "one"), "rc_air_airport").former_names == ["one"]


def test_history_is_renamed_with_its_base(rawcore: TargetDataset) -> None:
    history = rename(rawcore, "airport").history
    assert (history.name, history.former_names) == ("airport_hist", ["rc_air_airport_hist"])


def test_a_rename_keeps_the_key(rawcore: TargetDataset) -> None:
    assert rename(rawcore, "airport").key == rawcore.key


def test_a_history_dataset_is_not_renamed_alone(rawcore: TargetDataset) -> None:
    with pytest.raises(MetadataError, match="named after its base"):
        rename(rawcore.history, "other_hist")


def test_a_rename_onto_another_name_is_refused(rawcore: TargetDataset) -> None:
    TargetDatasetFactory(schema=rawcore.schema, name="taken")
    with pytest.raises(MetadataError, match="name of another dataset"):
        rename(rawcore, "taken")


def test_a_rename_that_makes_a_column_technical_is_refused(rawcore: TargetDataset) -> None:
    TargetColumnFactory(dataset=rawcore, name="port_key")
    with pytest.raises(MetadataError, match="technical column"):
        rename(rawcore, "port")


def test_a_column_rename_onto_a_retired_column_is_refused(rawcore: TargetDataset) -> None:
    lifecycle.retire_column(column=rawcore.columns.get(name="elevation"), expected_version=1)
    with pytest.raises(MetadataError, match="is retired"):
        lifecycle.rename_column(column=rawcore.columns.get(name="name"), name="elevation", expected_version=1)


def test_a_policy_follows_a_renamed_column(rawcore: TargetDataset) -> None:
    targets.update_target_dataset(dataset=rawcore, expected_version=1, history_policy={"track": ["name"]})
    lifecycle.rename_column(column=rawcore.columns.get(name="name"), name="title", expected_version=1)
    rawcore.refresh_from_db()
    assert rawcore.history_policy == {"track": ["title"]}


def test_expressions_downstream_follow_a_renamed_column(rawcore: TargetDataset, stage: TargetDataset) -> None:
    row = targets.create_target_column(dataset=rawcore, name="loud", type="string", expression="upper(name) || 'name'")
    lifecycle.rename_column(column=stage.columns.get(name="name"), name="title", expected_version=1)
    row.refresh_from_db()
    assert row.expression == "upper(`title`) || 'name'"


def test_a_filter_downstream_follows_a_renamed_column(rawcore: TargetDataset, stage: TargetDataset) -> None:
    targets.update_target_dataset(dataset=rawcore, expected_version=1, filter="elevation > 0")
    lifecycle.rename_column(column=stage.columns.get(name="elevation"), name="height", expected_version=1)
    rawcore.refresh_from_db()
    assert rawcore.filter == "`height` > 0"


# --- retirement ------------------------------------------------------------------------------


def test_a_retired_dataset_takes_its_history_along(rawcore: TargetDataset) -> None:
    lifecycle.retire_dataset(dataset=rawcore, expected_version=1)
    rawcore.history.refresh_from_db()
    assert not rawcore.history.active


def test_an_unretired_dataset_brings_its_history_back(rawcore: TargetDataset) -> None:
    lifecycle.retire_dataset(dataset=rawcore, expected_version=1)
    row = lifecycle.unretire_dataset(dataset=rawcore, expected_version=2)
    assert (row.active, row.history.active) == (True, True)


def test_the_whole_business_key_cannot_be_retired(rawcore: TargetDataset) -> None:
    with pytest.raises(MetadataError, match="needs a business key"):
        lifecycle.retire_column(column=rawcore.columns.get(name="icao"), expected_version=1)


def test_an_unretired_column_is_in_use(rawcore: TargetDataset) -> None:
    column = rawcore.columns.get(name="name")
    lifecycle.retire_column(column=column, expected_version=1)
    assert lifecycle.unretire_column(column=column, expected_version=2).active


# --- the database itself ---------------------------------------------------------------------


@pytest.mark.parametrize(
    ("model", "values"),
    [
        (TargetColumn, {"data_type": "nonsense"}),
        (TargetColumn, {"length": 5, "data_type": "float"}),
        (TargetColumn, {"data_type": "decimal"}),
        (TargetColumn, {"role": "business_key"}),
        (TargetColumn, {"active": False}),
        (TargetColumn, {"name": "ICAO"}),
        (TargetDataset, {"name": "x_hist"}),
        (TargetDataset, {"name": "X_HIST"}),
        (TargetDataset, {"materialization": "view"}),
    ],
)
def test_the_database_refuses_what_must_never_be(rawcore: TargetDataset, model: type, values: dict) -> None:
    row = rawcore if model is TargetDataset else rawcore.columns.get(name="name")
    with pytest.raises(IntegrityError), transaction.atomic():
        model.objects.filter(pk=row.pk).update(**values)


def test_the_database_refuses_an_input_from_nowhere() -> None:
    with pytest.raises(IntegrityError), transaction.atomic():
        DatasetInputFactory(dataset=TargetDatasetFactory())


def test_the_database_refuses_a_column_input_from_nowhere() -> None:
    item = DatasetInputFactory(source=SourceDatasetFactory())
    column = TargetColumnFactory(dataset=item.dataset)
    with pytest.raises(IntegrityError), transaction.atomic():
        ColumnInputFactory(column=column, dataset_input=item)


def test_a_source_that_is_read_cannot_be_deleted(rawcore: TargetDataset) -> None:
    with pytest.raises(IntegrityError), transaction.atomic():
        SourceDataset.objects.all().delete()


def rename(row: TargetDataset, name: str) -> TargetDataset:
    return lifecycle.rename_dataset(dataset=row, name=name, expected_version=row.version)
