"""Raw tables that keep all deliveries: rows read by stage, repeated attempts, partitions by day, small loads."""

from dataclasses import dataclass, replace
from datetime import date
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import functions as F

from architecture.domain.views import query_of_view
from loader.contract.manifest.loads import LoadManifest, ModelQuery
from loader.contract.manifest.maintenance import VacuumManifest
from loader.contract.manifest.reads import QuerySource, ReadManifest
from loader.contract.run_states import VACUUM
from loader.domain.catalogs.table_names import with_other_names
from loader.domain.vacuum import SAFE_HOURS
from loader.engine.historization import model_queries
from loader.engine.historization.model_queries import open_inputs, read_model
from loader.engine.queries import query_sources
from loader.engine.queries.origins import read_origin
from loader.engine.queries.trials import try_model
from loader.engine.sources.kept_deliveries import newest_delivery, remove_deliveries
from metadata.domain.sources.raw_keeping import ALL, BY_DAY, LATEST, Keeping, policy_of
from metadata.domain.state import DatasetState
from tests.fixtures.spark import by_night
from tests.loader.histories import Kept

pytestmark = pytest.mark.spark


@dataclass
class KeptRaw(Kept):
    """Dataset with a raw mode that a test may change."""

    mode: str = ALL
    delivery_checked: bool = True

    @property
    def raw_state(self) -> DatasetState:
        return replace(super().raw_state, load_policy=policy_of(self.mode))

    def manifest(self, path: Path, **options: Any) -> LoadManifest:
        made = super().manifest(path, **options)
        return replace(made, raw=(replace(made.raw[0], keeps_all=self.mode != LATEST),))

    def deliveries(self) -> dict[str, list[tuple[int, str, int]]]:
        """Return id, source file and source row of each raw row, by load run."""
        rows_by_run: dict[str, list[tuple[int, str, int]]] = {}
        rows = self.table(self.tables()[0]).frame().orderBy("load_run_id", "source_row").collect()
        for row in rows:
            rows_by_run.setdefault(row["load_run_id"], []).append((row["id"], row["source_file"], row["source_row"]))
        return rows_by_run


TWO, ONE = [{"id": 1, "v": "a"}, {"id": 2, "v": "b"}], [{"id": 1, "v": "a"}]
BOTH = {"run-1": [(1, "d-0.csv", 1), (2, "d-0.csv", 2)], "run-2": [(1, "d-1.csv", 1)]}
small_or_general = pytest.mark.parametrize("rows", [0, 50_000], ids=["general", "small"])


def make_dataset(spark, tmp_path: Path, **described: Any) -> KeptRaw:
    dataset = KeptRaw(spark, tmp_path, "d", format="csv", **described)
    dataset.folder.mkdir(exist_ok=True)
    return dataset


def load(dataset: KeptRaw, rows: list[dict], day: int, **options: Any) -> dict:
    status, event = dataset.load(rows, at=f"2024-01-{day:02}T00:00:00Z", **options)
    assert status == "succeeded", event
    return event


@pytest.mark.core
@small_or_general
def test_raw_keeps_every_delivery_and_a_load_reads_its_own(spark, tmp_path, rows):
    dataset = make_dataset(spark, tmp_path)
    load(dataset, TWO, 1, small_rows=rows)
    event = load(dataset, ONE, 2, small_rows=rows)
    assert dataset.deliveries() == BOTH
    assert event["counts"]["deleted"] == 1
    assert dataset.current() == ONE


def test_an_attempt_that_is_repeated_replaces_its_own_delivery(spark, tmp_path):
    dataset = make_dataset(spark, tmp_path)
    load(dataset, TWO, 1)
    load(dataset, ONE, 2)
    manifest = dataset.manifest(tmp_path / "d-1.csv", at="2024-01-02T00:00:00Z", run_id="run-2")
    dataset.again(manifest)
    assert dataset.deliveries() == BOTH


def test_a_load_of_rawcore_alone_reads_the_newest_delivery(spark, tmp_path):
    dataset = make_dataset(spark, tmp_path)
    load(dataset, TWO, 1)
    load(dataset, ONE, 2)
    dataset.sequence += 1
    manifest = dataset.manifest(tmp_path / "d-1.csv", at="2024-01-03T00:00:00Z", run_id="run-3")
    status, event = dataset.again(replace(manifest, raw=()))
    assert (status, event["counts"]["unchanged"], event["counts"]["deleted"]) == ("succeeded", 1, 0)


@pytest.mark.nightly
def test_models_trials_and_published_views_read_the_newest_delivery(spark, tmp_path):
    dataset = make_dataset(spark, tmp_path)
    load(dataset, TWO, 1)
    load(dataset, ONE, 2)
    raw = dataset.tables()[0]
    columns = tuple(replace(column, inputs=(column.key,)) for column in dataset.raw_state.columns)
    stage = DatasetState("s", "stage", "stage", "stg_d", columns, materialization="view", inputs=(raw.key,))
    view = query_of_view(stage, {raw.key: dataset.raw_state, "s": stage}).sql
    view = with_other_names(view, {raw.qualified_name: dataset.table(raw).sql_name})
    query = "SELECT id FROM d"
    trial = ReadManifest("try_model", arguments={"text": query, "query": query}, sources=(QuerySource("d", raw),))

    model = read_model(spark, dataset.warehouse, ModelQuery(query, (("d", raw),)), "m")

    assert [row["id"] for row in model.collect()] == [1]
    assert try_model(spark, dataset.warehouse, trial)["rows"] == [[1]]
    assert [row["id"] for row in spark.sql(view).collect()] == [1]


@pytest.mark.parametrize("reads", [model_queries, query_sources], ids=["model", "trial"])
def test_newest_delivery_is_read_although_another_run_removes_it_meanwhile(spark, tmp_path, monkeypatch, reads):
    dataset = make_dataset(spark, tmp_path)
    load(dataset, TWO, 1)
    load(dataset, ONE, 2)
    (raw, *_) = dataset.tables()

    def removing(*arguments: Any) -> str | None:
        run_id = newest_delivery(*arguments)
        remove_deliveries(dataset.table(raw), raw, [str(run_id)])
        return run_id

    monkeypatch.setattr(reads, "newest_delivery", removing)
    query = "SELECT id FROM d"
    if reads is model_queries:
        model = read_model(spark, dataset.warehouse, ModelQuery(query, (("d", raw),)), "m")
        rows = [list(row) for row in model.collect()]
    else:
        trial = ReadManifest("try_model", arguments={"text": query, "query": query}, sources=(QuerySource("d", raw),))
        rows = try_model(spark, dataset.warehouse, trial)["rows"]

    assert rows == [[1]]


def test_keys_of_a_superseded_delivery_are_returned_as_changed(spark, tmp_path):
    dataset = make_dataset(spark, tmp_path)
    load(dataset, TWO, 1)
    before = dataset.table(dataset.tables()[0]).version()
    load(dataset, ONE, 2)
    (raw,) = open_inputs(spark, dataset.warehouse, ModelQuery("", (("d", dataset.tables()[0]),)), "m")

    changed = raw.changed_rows(before, ["id"])

    assert {row["id"] for row in changed.collect()} == {1, 2}


@pytest.mark.nightly
def test_raw_switched_back_to_latest_has_a_single_delivery_after_the_next_load(spark, tmp_path):
    dataset = make_dataset(spark, tmp_path)
    load(dataset, TWO, 1)
    load(dataset, ONE, 2)
    dataset.mode = LATEST
    load(dataset, TWO, 3)
    assert dataset.deliveries() == {"run-3": [(1, "d-2.csv", 1), (2, "d-2.csv", 2)]}
    assert dataset.current() == TWO


@small_or_general
def test_deliveries_are_partitioned_by_the_day_of_their_load(spark, tmp_path, rows):
    dataset = make_dataset(spark, tmp_path)
    dataset.mode = BY_DAY
    load(dataset, TWO, 1, small_rows=rows)
    load(dataset, ONE, 2, small_rows=rows)
    raw = dataset.table(dataset.tables()[0])
    assert raw.observe().partition_by == ("loaded_on",)
    days = raw.frame().groupBy("loaded_on").agg(F.count("*")).orderBy("loaded_on").collect()
    assert [tuple(day) for day in days] == [(date(2024, 1, 1), 2), (date(2024, 1, 2), 1)]
    assert dataset.deliveries() == BOTH


@pytest.mark.nightly
@pytest.mark.parametrize(("before", "after"), [by_night(ALL, BY_DAY), (BY_DAY, LATEST)])
def test_a_rebuild_changes_the_partitions_and_keeps_every_row(spark, tmp_path, before, after):
    dataset = make_dataset(spark, tmp_path)
    dataset.mode = before
    load(dataset, TWO, 1)
    dataset.mode = after
    described = "loaded_on" if after == BY_DAY else "nothing"
    assert dataset.evolve() == [f"rebuild_table raw.raw_t_d: partitioned by {described}"]
    assert dataset.evolve() == []
    assert dataset.deliveries() == {"run-1": BOTH["run-1"]}
    load(dataset, ONE, 2)
    assert dataset.current() == ONE


@pytest.mark.nightly
@pytest.mark.parametrize("mode", [by_night(ALL), BY_DAY])
def test_a_vacuum_removes_deliveries_that_the_retention_no_longer_keeps(spark, tmp_path, mode):
    dataset = make_dataset(spark, tmp_path)
    dataset.mode = mode
    load(dataset, TWO, 1)
    load(dataset, ONE, 2)
    raw = dataset.tables()[0]
    manifest = VacuumManifest(
        "v", dataset.state.key, raw.qualified_name, (raw,), SAFE_HOURS, True, Keeping(mode, deliveries=1)
    )
    _, planned = dataset.perform_run(VACUUM, manifest)
    (measured,) = dataset.answer["tables"].values()
    assert (planned["counts"]["deliveries"], planned["counts"]["deliveries_removable"]) == (2, 1)
    listed = [(item["run_id"], item["rows"], item["removable"]) for item in measured["deliveries_listed"]]
    assert listed == [("run-2", 1, False), ("run-1", 2, True)]
    assert dataset.deliveries() == BOTH

    status, event = dataset.perform_run(VACUUM, replace(manifest, dry_run=False))
    assert (status, event["counts"]["deliveries"], event["counts"]["deliveries_removed"]) == ("succeeded", 1, 1)
    assert dataset.deliveries() == {"run-2": BOTH["run-2"]}
    commit = dataset.table(raw).newest_run_commit()
    assert (commit.what, commit.run_id) == (VACUUM, "v")
    assert load(dataset, TWO, 3)["counts"]["new"] == 0
    assert dataset.current() == TWO


@pytest.mark.nightly
def test_origin_lists_delivered_rows_and_runs_whose_delivery_was_deleted(spark, tmp_path):
    dataset = make_dataset(spark, tmp_path)
    load(dataset, TWO, 1)
    load(dataset, TWO, 2)
    load(dataset, [{"id": 2, "v": "c"}], 3)
    made = dataset.manifest(tmp_path / "d-0.csv", at="2024-01-04T00:00:00Z", run_id="-").rawcore[0]
    spec = dataset.history_spec
    rows = dataset.table(spec).frame().where("id = 2").collect()
    key = rows[0][spec.column("entity_key").name]
    arguments = {"entity_key": key}
    manifest = ReadManifest("origin", spec, arguments=arguments, inputs=made.inputs, entity_key=made.entity_key)

    answer = read_origin(spark, dataset.warehouse, manifest, 2)
    versions = [(row[1], *row[3:]) for row in answer["rows"]]
    assert versions == [("run-3", "d-2.csv", "1", "true"), ("run-2", "d-1.csv", "2", "false")]
    assert (answer["truncated"], answer["removed"]) == (True, [])

    dataset.mode = LATEST
    load(dataset, [{"id": 2, "v": "c"}], 5)
    answer = read_origin(spark, dataset.warehouse, manifest, 2)
    assert [row[1] for row in answer["rows"]] == ["run-4"]
    assert answer["removed"] == ["run-1", "run-3"]
