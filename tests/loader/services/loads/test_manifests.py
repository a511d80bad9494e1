"""Manifests for the airports."""

import json
from dataclasses import replace
from datetime import UTC, datetime

import pytest

from elevata.core.errors import MetadataError
from loader.contract.manifest.codec import from_json, to_json
from loader.contract.manifest.loads import LoadManifest
from loader.contract.refusals import Refusal
from loader.selectors.statements import dataset_sql
from loader.services.loads.attempts import attempt_of, claim
from loader.services.loads.load_runs import request_load_run
from loader.services.loads.manifests import load_manifest
from loader.services.loads.plans import plan_load
from loader.services.sources.specs import source_location
from metadata.domain.scope import DATASET, Scope
from metadata.models import Reference, SourceDataset, System, TargetColumn, TargetDataset
from metadata.services.datasets.generation import generate_targets
from metadata.services.datasets.targets import create_target_column, create_target_dataset
from metadata.services.references import update_reference
from metadata.services.sources import (
    create_source_column,
    create_source_dataset,
    create_system,
    update_source_column,
    update_source_dataset,
)
from tests.loader.airports import column, source, target

pytestmark = pytest.mark.django_db(transaction=True)

AT = datetime(2024, 5, 1, tzinfo=UTC)


def manifest(**arguments) -> LoadManifest:
    run = request_load_run(load_timestamp=AT, wake_worker=False, **arguments).run
    claimed = claim(run_pk=run.pk, worker="w")
    plan = plan_load(Scope.from_json(claimed.scope))
    return load_manifest(run=claimed, plan=plan, rows=attempt_of(claimed).prepare(steps=plan.steps))


def test_manifest_survives_a_json_round_trip(airports):
    made = manifest()
    assert from_json(LoadManifest, json.loads(json.dumps(to_json(made)))) == made


def test_manifest_contains_the_limits_of_deletes(airports, settings):
    settings.DELETES_SHARE, settings.DELETES_KEYS = 0.5, 7
    made = manifest(run_id="r", allow_deletes=True)
    assert (made.allow_deletes, made.deletes_share, made.deletes_keys) == (True, 0.5, 7)


def test_manifest_contains_run_id_time_and_attempt(airports):
    made = manifest(run_id="r", allow_empty=True)
    assert (made.run_id, made.load_timestamp, made.attempt) == ("r", "2024-05-01T00:00:00+00:00", 1)
    assert (made.allow_empty, made.already_done) == (True, ())


def test_raw_load_contains_its_source_and_contract(airports, settings):
    airport, route = manifest().raw
    assert (airport.name, airport.source.name, route.source.name) == ("raw.raw_air_airport", "air.airport", "net.route")
    assert airport.source.location == f"{settings.DATA_DIR}/landing/air/airport.csv"
    assert airport.source.format == "csv"
    described = {c.name: (c.type, c.business_key) for c in airport.source.columns}
    assert described == {"icao": ("string(4)", True), "name": ("string", False), "elevation": ("float", False)}
    assert airport.columns == (("icao", "icao"), ("name", "name"), ("elevation", "elevation"))
    assert airport.table.kind == "raw"
    assert airport.depends_on == ()


def test_rawcore_load_contains_its_stage_inputs_and_hash_components(airports):
    made = manifest()
    airport, route = made.rawcore
    assert (airport.name, airport.history.name) == ("rawcore.rc_air_airport", "rc_air_airport_hist")
    icao, name, elevation = (str(column(f"rawcore.rc_air_airport.{c}").key) for c in ("icao", "name", "elevation"))
    assert [(part.key, part.column) for part in airport.entity_key] == [(icao, "icao")]
    assert [(part.key, part.column) for part in airport.row_hash] == [(name, "name"), (elevation, "elevation")]
    (stage,) = airport.inputs
    assert stage.table.qualified_name == "raw.raw_air_airport"
    assert [(c.name, c.type, c.expression) for c in stage.columns] == [
        ("icao", "string(4)", "`icao`"),
        ("name", "string", "`name`"),
        ("elevation", "float", "`elevation`"),
    ]
    assert (airport.sequence, airport.newest_applied_at) == (1, None)
    assert airport.depends_on == (made.raw[0].dataset,)
    assert route.depends_on == (made.raw[1].dataset, airport.dataset)


def set_rule(rule: str) -> None:
    reference = Reference.objects.get()
    update_reference(reference=reference, expected_version=reference.version, unknown_parent=rule)


def test_foreign_key_contains_the_parent_that_its_rule_looks_up(airports):
    (key,) = manifest().rawcore[1].foreign_keys
    assert (key.rule, key.parent) == ("keep", None)
    set_rule("refuse")
    (key,) = manifest().rawcore[1].foreign_keys
    assert (key.rule, key.parent.qualified_name) == ("refuse", "rawcore.rc_air_airport")


def test_quarantine_rule_for_unknown_parents_adds_a_check_to_the_child(airports):
    set_rule("quarantine")
    parent, child = manifest().rawcore
    (check,) = child.quality
    assert (check.kind, check.severity, check.other.qualified_name) == (
        "relationship",
        "quarantine",
        "rawcore.rc_air_airport",
    )
    assert (check.arguments["columns"], check.arguments["other_columns"]) == (["origin"], ["icao"])
    assert (child.foreign_keys[0].rule, parent.quality) == ("keep", ())


def test_parent_load_contains_the_referring_rows_for_ghost_rows(airports):
    assert manifest().rawcore[0].children == ()
    set_rule("ghost")
    made = manifest()
    airport, route = made.rawcore
    (rows,) = airport.children
    assert (rows.name, rows.columns, rows.policy) == ("rawcore.rc_net_route", (("icao", "origin"),), route.policy)
    assert [column.name for column in rows.inputs[0].columns] == ["route", "origin"]
    assert rows.foreign_key == route.foreign_keys[0].components
    assert airport.depends_on == tuple(load.dataset for load in made.raw)
    assert from_json(LoadManifest, json.loads(json.dumps(to_json(made)))) == made


def test_parent_with_ghost_rows_treats_sensitive_columns_of_the_child_as_sensitive(airports):
    set_rule("ghost")
    TargetColumn.objects.filter(name="origin", dataset__name="rc_net_route").update(sensitivity="restricted")
    assert "origin" in manifest().rawcore[0].sensitive


@pytest.mark.parametrize(("rule", "dataset"), [("null", "rc_net_route"), ("ghost", "rc_air_airport")])
def test_plan_includes_the_tables_that_a_rule_for_unknown_parents_reads(airports, rule, dataset):
    set_rule(rule)
    plan = plan_load(Scope(DATASET, f"rawcore.{dataset}", target_only=True))
    assert {"rc_net_route", "rc_air_airport"} & {table.name for table in plan.tables} == (
        {"rc_net_route", "rc_air_airport"}
    )


def test_duplicates_of_a_delivery_shared_with_a_feed_are_checked_by_the_snapshot_reader(airports):
    source(airports["airport"].system, "reading", {"id": "integer", "at": "timestamp", "v": "string"}, ("id",))
    assert _is_checked("rc_air_reading")
    create_target_dataset(
        schema=target("rawcore.rc_air_reading").schema,
        name="rc_air_reading_log",
        inputs=[target("stage.stg_air_reading")],
        take_columns=True,
        historize=True,
        history_policy={"input": "effective", "time": "at"},
    )
    assert (_is_checked("rc_air_reading"), _is_checked("rc_air_reading_log")) == (False, True)


@pytest.mark.full
@pytest.mark.parametrize(
    ("policy", "feed"),
    [
        ({"input": "effective", "time": "at"}, True),
        ({"input": "effective", "time": "at", "absent_keys": "deleted"}, False),
        ({}, False),
    ],
    ids=["every reader is a feed", "absent keys are closed", "one takes deliveries whole"],
)
def test_raw_table_is_a_feed_only_if_no_reader_takes_complete_deliveries(airports, policy, feed):
    source(airports["airport"].system, "reading", {"id": "integer", "at": "timestamp", "v": "string"}, ("id",))
    create_target_dataset(
        schema=target("rawcore.rc_air_reading").schema,
        name="rc_air_reading_log",
        inputs=[target("stage.stg_air_reading")],
        take_columns=True,
        historize=True,
        history_policy={"input": "effective", "time": "at"},
    )
    TargetDataset.objects.filter(name="rc_air_reading").update(historize=True, history_policy=policy)
    made = manifest(scope=Scope(DATASET, "rawcore.rc_air_reading"))
    assert {load.feed for load in made.raw if load.name == "raw.raw_air_reading"} == {feed}


def test_appended_rows_are_read_once_and_have_no_key(airports):
    source = create_source_dataset(
        system=airports["airport"].system,
        name="sale",
        location="sale.csv",
        format="csv",
        historize=False,
        history_policy={"input": "append"},
    )
    create_source_column(source_dataset=source, name="amount", type="integer")
    generate_targets(source_dataset=source)
    made = manifest(scope=Scope(DATASET, "rawcore.rc_air_sale"))
    (raw,), (sale,) = made.raw, made.rawcore
    assert (raw.feed, raw.source.one_row_per_key, sale.inputs[0].feed) == (True, True, True)
    assert (sale.entity_key, sale.history, sale.event_log, sale.delivery_checked) == ((), None, None, True)


@pytest.mark.parametrize("second", [{"input": "append"}, {"input": "effective", "time": "at"}])
def test_second_reader_of_a_feed_of_appended_rows_is_refused(airports, second):
    source(airports["airport"].system, "reading", {"id": "integer", "at": "timestamp"}, ("id",))
    TargetDataset.objects.filter(name="rc_air_reading").update(historize=False, history_policy={"input": "append"})
    create_target_dataset(
        schema=target("rawcore.rc_air_reading").schema,
        name="rc_air_reading_log",
        inputs=[target("stage.stg_air_reading")],
        take_columns=True,
        historize=False,
        history_policy=second,
    )
    with pytest.raises(Refusal) as refused:
        manifest(scope=Scope(DATASET, "rawcore.rc_air_reading"))
    assert refused.value.code == "SHARED_APPEND"
    assert "rawcore.rc_air_reading, rawcore.rc_air_reading_log" in refused.value.message
    manifest(scope=Scope(DATASET, "rawcore.rc_air_airport"))


@pytest.mark.parametrize("historize", [True, False])
def test_dated_rows_have_an_event_log_with_and_without_a_history(airports, historize):
    source(airports["airport"].system, "reading", {"id": "integer", "at": "timestamp", "v": "string"}, ("id",))
    policy = {"input": "effective", "time": "at"}
    TargetDataset.objects.filter(name="rc_air_reading").update(historize=historize, history_policy=policy)
    made = manifest(scope=Scope(DATASET, "rawcore.rc_air_reading"))
    (reading,) = made.rawcore
    assert (reading.event_log.name, reading.history is not None) == ("rc_air_reading_hist_events", historize)
    assert (made.raw[0].feed, reading.leading) == (True, reading.history or reading.table)


def test_deduplicate_option_is_refused_for_dated_rows(airports):
    reading = source(airports["airport"].system, "reading", {"id": "integer", "at": "timestamp"}, ("id",))
    update_source_dataset(
        source_dataset=reading, expected_version=1, options={"deduplicate": "latest", "order_by": "at"}
    )
    TargetDataset.objects.filter(name="rc_air_reading").update(history_policy={"input": "effective", "time": "at"})
    with pytest.raises(Refusal, match="deduplicate does not go with rows") as refused:
        manifest(scope=Scope(DATASET, "rawcore.rc_air_reading"))
    assert refused.value.code == "BAD_OPTION"


def _is_checked(name: str) -> bool:
    made = manifest(scope=Scope(DATASET, f"rawcore.{name}"))
    return next(load for load in made.rawcore if load.name == f"rawcore.{name}").delivery_checked


def test_foreign_key_is_computed_from_the_column_of_the_child(airports):
    route = manifest().rawcore[1]
    (foreign,) = route.foreign_keys
    assert foreign.column == "rc_air_airport_key"
    parent = str(column("rawcore.rc_air_airport.icao").key)
    assert [(part.key, part.column) for part in foreign.components] == [(parent, "origin")]
    assert "rc_air_airport_key" in [table_column.name for table_column in route.table.columns]


def test_source_column_that_is_not_integrated_remains_in_the_contract(airports):
    name = airports["airport"].columns.get(name="name")
    update_source_column(source_column=name, expected_version=name.version, integrate=False)
    airport = manifest().raw[0]
    assert "name" in [c.name for c in airport.source.columns]


def test_target_only_plan_includes_the_raw_table_without_loading_it(airports):
    scope = Scope(DATASET, "rawcore.rc_air_airport", target_only=True)
    plan = plan_load(scope)
    assert [step.dataset.name for step in plan.steps] == ["rc_air_airport"]
    assert [table.name for table in plan.tables] == ["raw_air_airport", "rc_air_airport", "rc_air_airport_hist"]
    assert manifest(scope=scope).raw == ()


@pytest.mark.parametrize(
    ("system", "own", "place"),
    [
        ("{{ data_dir }}/in", "a.csv", "{data}/in/a.csv"),
        ("{{data_dir}}/in/", "a.csv", "{data}/in/a.csv"),
        ("/srv/in", "/elsewhere/a.csv", "/elsewhere/a.csv"),
        ("s3a://bucket/in", "a/*.parquet", "s3a://bucket/in/a/*.parquet"),
        ("/srv", "hdfs://n/a.csv", "hdfs://n/a.csv"),
        ("", "{{ data_dir }}/a.csv", "{data}/a.csv"),
        ("examples", "a.csv", "{base}/examples/a.csv"),
    ],
)
def test_source_location_combines_system_and_source_locations(airports, settings, system, own, place):
    source = airports["airport"]
    source.system.location, source.location = system, own
    assert source_location(source) == place.format(data=settings.DATA_DIR, base=settings.BASE_DIR)


def test_dates_in_a_location_are_filled_from_the_run(airports):
    source = airports["airport"]
    update_source_dataset(
        source_dataset=source, expected_version=source.version, location="/srv/{date:%Y/%m/%d}/a_{run_date}.csv"
    )
    made = manifest()
    day = made.load_timestamp[:10]
    assert made.raw[0].source.location == f"/srv/{day.replace('-', '/')}/a_{day}.csv"


def test_options_of_the_source_reach_raw_and_stage(airports):
    source = airports["airport"]
    update_source_dataset(source_dataset=source, expected_version=source.version, options={"delimiter": ";"})
    made = manifest()
    assert made.raw[0].source.options == {"delimiter": ";"}
    assert made.rawcore[0].inputs[0].options == {"delimiter": ";"}


def test_file_source_in_a_database_system_is_refused(airports):
    # The services refuse this state; rows of an older version or of a manual import may still have it.
    System.objects.update(kind="jdbc")
    with pytest.raises(Refusal) as refused:
        manifest()
    assert refused.value.code == "SOURCE_KIND"
    assert "air.airport" in refused.value.message


def move_to_database(source, **changes) -> None:
    location = {"location": "postgresql://reader@db.example.org/erp", "secret": "ELEVATA_SOURCE_AIR"}
    System.objects.filter(pk=source.system_id).update(kind="jdbc", **location)
    source.refresh_from_db()
    options = {"filter": "elevation > 0"}
    table = {"format": "table", "location": "air.airport", "options": options} | changes
    update_source_dataset(source_dataset=source, expected_version=source.version, **table)


def test_table_source_contains_its_database_and_secret_name_but_no_password(airports, monkeypatch):
    monkeypatch.setenv("ELEVATA_SOURCE_AIR", "hunter2")
    move_to_database(airports["airport"])
    made = manifest()
    spec = next(load.source for load in made.raw if load.name == "raw.raw_air_airport")
    assert (spec.format, spec.location, spec.options) == ("table", "air.airport", {"filter": "elevation > 0"})
    assert (spec.database.place.host, spec.database.place.port) == ("db.example.org", 5432)
    assert made.secrets == {"ELEVATA_SOURCE_AIR"}
    assert "hunter2" not in json.dumps(to_json(made))
    given = made.with_passwords({"ELEVATA_SOURCE_AIR": "hunter2"})
    assert [load.source.database.password for load in given.raw if load.source.database] == ["hunter2"]
    assert from_json(LoadManifest, json.loads(json.dumps(to_json(made)))) == made


def move_to_api(source, authentication: str = "bearer", **changes) -> None:
    given = {
        "location": "https://api.example.org/v1",
        "secret": "ELEVATA_SOURCE_AIR",
        "options": {"authentication": authentication},
    }
    System.objects.filter(pk=source.system_id).update(kind="rest", **given)
    source.refresh_from_db()
    endpoint = {"format": "rest", "location": "airports", "options": {}} | changes
    update_source_dataset(source_dataset=source, expected_version=source.version, **endpoint)


def test_endpoint_source_contains_its_api_and_secret_name_but_no_password(airports):
    move_to_api(airports["airport"], "api_key")
    made = manifest()
    spec = next(load.source for load in made.raw if load.name == "raw.raw_air_airport")
    assert (spec.format, spec.location, str(spec.api.place)) == ("rest", "airports", "https://api.example.org/v1")
    assert (spec.api.options, made.secrets) == ({"authentication": "api_key"}, {"ELEVATA_SOURCE_AIR"})
    given = made.with_passwords({"ELEVATA_SOURCE_AIR": "hunter2"})
    assert [load.source.api.password for load in given.raw if load.source.api] == ["hunter2"]
    assert "hunter2" not in repr(given)
    assert from_json(LoadManifest, json.loads(json.dumps(to_json(made)))) == made


def test_dates_in_an_endpoint_and_its_parameters_are_filled_from_the_run(airports):
    options = {"parameters": "day={run_date}&sort=id"}
    move_to_api(airports["airport"], location="days/{date:%Y}/airports", options=options)
    made = manifest()
    spec = next(load.source for load in made.raw if load.name == "raw.raw_air_airport")
    day = made.load_timestamp[:10]
    assert (spec.location, spec.options["parameters"]) == (f"days/{day[:4]}/airports", f"day={day}&sort=id")
    assert spec.undated == ("days/{date:%Y}/airports", options["parameters"])


def test_a_reference_over_a_retired_column_is_refused(airports):
    origin = column("rawcore.rc_net_route.origin")
    # The services refuse this state; rows of an older version or of a manual import may still have it.
    type(origin).objects.filter(pk=origin.pk).update(
        active=False, retired_at="2024-01-01T00:00:00Z", retired_by="person"
    )
    with pytest.raises(Refusal) as refused:
        manifest()
    assert refused.value.code == "BROKEN_REFERENCE"


def test_dataset_sql_is_available_for_every_dataset(airports):
    for dataset in TargetDataset.objects.all():
        assert "`" in dataset_sql(dataset)
    assert dataset_sql(target("rawcore.rc_air_airport_hist")).startswith("-- one atomic commit")


def test_dataset_sql_explains_a_missing_source(airports):
    airports["airport"].system.datasets.update(active=False)
    assert dataset_sql(target("raw.raw_air_airport")).startswith("-- raw.raw_air_airport has 0 active sources")


def test_raw_and_rawcore_loads_contain_the_names_of_sensitive_columns(airports):
    source = target("raw.raw_air_airport").generated_from
    source.columns.filter(name="name").update(pii=True)
    made = manifest()
    raw = next(load for load in made.raw if load.name == "raw.raw_air_airport")
    rawcore = next(load for load in made.rawcore if load.name == "rawcore.rc_air_airport")
    assert raw.sensitive == rawcore.sensitive == ("name",)
    assert all(load.sensitive == () for load in (*made.raw, *made.rawcore) if load not in (raw, rawcore))


def test_load_contains_sensitive_columns_that_only_a_filter_reads(airports):
    """Check these columns, too, since Spark's error messages contain the value that could not be cast."""
    target("raw.raw_air_airport").generated_from.columns.filter(name="name").update(pii=True)
    dataset = create_target_dataset(
        schema=target("rawcore.rc_air_airport").schema,
        name="rc_air_high",
        inputs=[target("stage.stg_air_airport")],
        filter="cast(name as int) > 1",
    )
    create_target_column(dataset=dataset, name="icao", type="string(4)", role="business_key", key_ordinal=1)
    load = next(load for load in manifest().rawcore if load.name == "rawcore.rc_air_high")
    assert load.sensitive == ("name",)


def orders(intake: dict, detects: str, **described) -> None:
    """Create and generate a table of a database whose reader looks for deleted keys."""
    erp = create_system(name="ERP", short_name="erp", kind="jdbc", location="postgresql://reader@db/erp")
    policy = {"input": "delta", "delete_detection": detects}
    given = {"location": "sales.orders", "format": "table", "intake": intake, "history_policy": policy}
    table = create_source_dataset(system=erp, name="orders", **given | described)
    create_source_column(source_dataset=table, name="id", type="integer", key_ordinal=1)
    create_source_column(source_dataset=table, name="at", type="timestamp", target_name="changed_at")
    create_source_column(source_dataset=table, name="v", type="string")
    generate_targets(source_dataset=table)


def test_key_list_detection_adds_a_read_of_the_source_keys(airports):
    orders({"watermark": ["at"]}, "key_list", options={"filter": "id > 0"})
    made = manifest(scope=Scope(DATASET, "rawcore.rc_erp_orders"))
    key_list = made.raw[0].key_list
    assert ([c.name for c in key_list.columns], key_list.location, key_list.options, key_list.intake) == (
        ["id"],
        "sales.orders",
        {"filter": "id > 0"},
        {},
    )
    assert from_json(LoadManifest, json.loads(json.dumps(to_json(made)))) == made
    secret = replace(made.raw[0], key_list=replace(key_list, database=replace(key_list.database, secret="S")))
    assert secret.with_password({"S": "word"}).key_list.database.password == "word"


def test_key_list_of_a_file_source_has_its_own_location(airports, settings):
    row = airports["airport"]
    policy = {"input": "delta", "delete_detection": "key_list"}
    SourceDataset.objects.filter(pk=row.pk).update(intake={"key_list": "keys.csv"}, options={"expected_files": 1})
    TargetDataset.objects.filter(name="rc_air_airport").update(history_policy=policy)
    airport, route = manifest().raw
    assert airport.key_list.location == f"{settings.DATA_DIR}/landing/air/keys.csv"
    assert (airport.key_list.options, airport.source.options, route.key_list) == ({}, {"expected_files": 1}, None)


def test_window_detection_passes_the_watermark_column_to_the_reader(airports):
    orders({"watermark": ["at"]}, "window")
    made = manifest(scope=Scope(DATASET, "rawcore.rc_erp_orders"))
    assert ([i.window for i in made.rawcore[0].inputs], made.raw[0].key_list) == (["changed_at"], None)


@pytest.mark.parametrize(
    ("detects", "expression", "message"),
    [
        ("window", {"changed_at": "date_trunc('day', at)"}, "unchanged values of erp.orders.at"),
        ("key_list", {"id": "id + length(v)"}, "v is no key of erp.orders"),
    ],
)
def test_delete_detection_over_a_computed_column_is_refused(airports, detects, expression, message):
    orders({"watermark": ["at"]}, detects)
    for name, sql in expression.items():
        TargetColumn.objects.filter(dataset__name="stg_erp_orders", name=name).update(expression=sql)
    with pytest.raises(Refusal, match=message) as refused:
        manifest(scope=Scope(DATASET, "rawcore.rc_erp_orders"))
    assert refused.value.code == "BAD_DETECTION"


def changing_table(system) -> SourceDataset:
    policy = {"input": "cdc", "op": "_op", "time": "_sequence"}
    given = {"location": "lake/item", "format": "delta", "options": {"changes": True}, "history_policy": policy}
    row = create_source_dataset(system=system, name="item", **given)
    create_source_column(source_dataset=row, name="id", type="integer", key_ordinal=1)
    for name, type_ in (("v", "string"), ("_op", "string"), ("_sequence", "bigint")):
        create_source_column(source_dataset=row, name=name, type=type_)
    return row


def test_delta_change_feed_requires_readers_with_history_input_cdc(airports):
    generate_targets(source_dataset=changing_table(airports["airport"].system))
    scope = Scope(DATASET, "rawcore.rc_air_item")
    made = manifest(scope=scope, full=True)
    assert (made.raw[0].feed, made.full) == (True, True)
    assert [c.name for c in made.rawcore[0].table.of_purpose("attribute")] == ["v", "_sequence"]
    TargetDataset.objects.filter(name="rc_air_item").update(history_policy={})
    with pytest.raises(Refusal, match="each dataset that reads them needs history input cdc"):
        manifest(scope=scope, run_id="another")


def test_changes_option_requires_the_history_input_cdc(airports):
    row = changing_table(airports["airport"].system)
    with pytest.raises(MetadataError, match="needs history input cdc") as refused:
        update_source_dataset(source_dataset=row, expected_version=row.version, history_policy={})
    assert refused.value.field == "options.changes"


def test_watermark_of_a_source_is_passed_to_raw_and_its_readers(airports):
    erp = create_system(name="ERP", short_name="erp", kind="jdbc", location="postgresql://reader@db/erp")
    intake = {"watermark": ["at"], "look_back": "2 days"}
    table = create_source_dataset(
        system=erp,
        name="orders",
        location="sales.orders",
        format="table",
        intake=intake,
        history_policy={"input": "delta"},
    )
    create_source_column(source_dataset=table, name="id", type="integer", key_ordinal=1)
    create_source_column(source_dataset=table, name="at", type="timestamp")
    generate_targets(source_dataset=table)
    made = manifest(scope=Scope(DATASET, "rawcore.rc_erp_orders"), since="2024-01-01")
    assert (made.raw[0].source.intake, made.full, made.since) == (intake, False, "2024-01-01")
    assert [stage_input.incremental for stage_input in made.rawcore[0].inputs] == [True]
