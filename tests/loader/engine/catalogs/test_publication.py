"""Names published in the runner's own catalog, and in catalogs of Spark's settings."""

from collections.abc import Iterable
from dataclasses import replace
from functools import partial

import pytest
from py4j.protocol import Py4JError

from loader.contract.manifest.publication import PublishedName, PublishManifest
from loader.contract.refusals import Refusal
from loader.domain.catalogs.catalog import catalog_of
from loader.domain.catalogs.publication import mark_of, names_of, narrowed
from loader.engine.catalogs import external
from loader.engine.catalogs.external import EmbeddedCatalog
from loader.engine.catalogs.publication import publish_names
from loader.engine.pyspark_types import jvm_of
from metadata.domain.state import ColumnState, DatasetState
from tests.loader.harness import Dataset, stable

pytestmark = pytest.mark.spark

OWN = ["embedded", "spark:spark_catalog"]
ITEM, STAGE = "rawcore.rc_t_published", "stage.stg_t_published"


@pytest.fixture(scope="module")
def loaded(spark, tmp_path_factory) -> Dataset:
    """Return a dataset with two rows and a history."""
    dataset = Dataset(spark, tmp_path_factory.mktemp("published"), name="published")
    status, event = dataset.load([{"id": 1, "v": "a"}, {"id": 2, "v": "b"}], at="2024-01-01T00:00:00Z")
    assert status == "succeeded", event
    return dataset


def states(dataset: Dataset, **changes: str) -> list[DatasetState]:
    """Return the states of raw, of a stage view over it, and of rawcore with views over its history."""
    raw = dataset.raw_state
    columns = tuple(
        ColumnState(stable("stage", column.name), column.name, column.type, inputs=(column.key,))
        for column in raw.columns
    )
    stage = DatasetState(
        stable("stage"), "stage", "stage", STAGE.partition(".")[2], columns, materialization="view", inputs=(raw.key,)
    )
    views = {"history_policy": {"views": ["current", "as_of"]}}
    return [raw, stage, replace(dataset.state, **views, **changes)]


def names(dataset: Dataset, prefix: str, **changes) -> tuple[PublishedName, ...]:
    described = states(dataset, **changes)
    entries = catalog_of(described, warehouse=dataset.warehouse)
    return names_of(entries, described, warehouse=dataset.warehouse, prefix=prefix)


def publish(
    dataset: Dataset,
    address: str,
    wanted: Iterable[PublishedName],
    *,
    former: Iterable[PublishedName] = (),
    check: bool = False,
    whole: bool = True,
) -> dict[str, str]:
    """Publish or check; return the problems that remain, by name. ``former`` names used other schemas."""
    wanted = tuple(wanted)
    schemas = tuple(sorted({name.name.partition(".")[0] for name in (*wanted, *former)}))
    manifest = PublishManifest(wanted, schemas, mark_of(dataset.warehouse), address, check, whole)
    answer = publish_names(dataset.spark, dataset.warehouse, manifest)
    assert answer["names"] == len(wanted)
    return {row["name"]: row["problem"] for row in answer["findings"]}


def count(dataset: Dataset, name: str) -> int:
    return dataset.spark.sql(f"SELECT count(*) FROM {name}").first()[0]


@pytest.mark.core
@pytest.mark.parametrize("address", OWN)
def test_names_are_published_read_renamed_and_repaired(loaded: Dataset, address: str):
    prefix = f"{address.partition(':')[0]}_"
    wanted = names(loaded, prefix)
    assert publish(loaded, address, wanted, check=True) == dict.fromkeys((name.name for name in wanted), "missing")
    assert publish(loaded, address, wanted) == {}
    assert publish(loaded, address, wanted, check=True) == {}
    as_of = f"{prefix}{ITEM}_hist_as_of"
    readable = [name.name for name in wanted if name.name != as_of]
    assert {prefix + STAGE, f"{prefix}{ITEM}_hist_current", f"{prefix}{ITEM}_hist"} <= set(readable)
    for name in (*readable, f"{as_of}(TIMESTAMP '2024-06-01')"):
        assert count(loaded, name) == 2, name

    renamed = names(loaded, prefix, schema="core")
    current = f"{prefix}core.rc_t_published_hist_current"
    assert publish(loaded, address, renamed, former=wanted) == {}
    assert count(loaded, current) == 2
    for kind in ("TABLES", "USER FUNCTIONS"):
        listed = loaded.spark.sql(f"SHOW {kind} IN {prefix}rawcore").collect()
        assert not [row for row in listed if "published" in str(row)]

    loaded.spark.sql(f"DROP VIEW {prefix}{STAGE}")
    loaded.spark.sql(f"CREATE OR REPLACE VIEW {current} AS SELECT 1 AS other")
    only = narrowed(renamed, {loaded.raw_state.key})
    assert publish(loaded, address, only, whole=False) == {}
    assert count(loaded, prefix + STAGE) == 2
    # A view without the warehouse's mark is foreign, unless the catalog is the embedded one.
    problems = {} if address == "embedded" else {current: "foreign"}
    assert publish(loaded, address, renamed) == problems


def test_a_foreign_table_keeps_its_name_and_no_view_reads_it(loaded: Dataset, tmp_path):
    wanted, raw = names(loaded, "taken_"), "taken_raw.raw_t_published"
    loaded.spark.sql("CREATE SCHEMA taken_raw")
    loaded.spark.sql(f"CREATE TABLE {raw} USING delta LOCATION '{tmp_path}/foreign' AS SELECT 'not ours' AS text")
    problems = publish(loaded, "spark:spark_catalog", wanted)
    assert problems == {raw: "foreign", f"taken_{STAGE}": "failed"}
    assert [row.text for row in loaded.spark.table(raw).collect()] == ["not ours"]


def test_entries_of_others_that_cannot_be_read_are_foreign_and_others_are_published(loaded: Dataset, tmp_path):
    wanted, raw = names(loaded, "broken_"), "broken_raw.raw_t_published"
    loaded.spark.sql("CREATE SCHEMA broken_raw")
    loaded.spark.sql(f"CREATE TABLE {raw} USING delta LOCATION '{tmp_path}/broken' AS SELECT 1 AS a")
    loaded.spark.sql("CREATE FUNCTION broken_raw.of_others AS 'com.example.Missing' USING JAR 'file:///missing.jar'")
    for log in (tmp_path / "broken" / "_delta_log").glob("*0.json"):
        log.write_text("broken")
    problems = publish(loaded, "spark:spark_catalog", wanted)
    assert problems == {raw: "foreign", f"broken_{STAGE}": "failed"}


@pytest.mark.parametrize("address", OWN)
def test_view_that_was_altered_in_the_catalog_is_outdated_and_published_again(loaded: Dataset, address: str):
    prefix = f"altered_{address.partition(':')[0]}_"
    wanted = names(loaded, prefix)
    assert publish(loaded, address, wanted) == {}
    # The properties with mark and digest stay.
    loaded.spark.sql(f"ALTER VIEW {prefix}{STAGE} AS SELECT 'of others' AS text")
    assert publish(loaded, address, wanted, check=True) == {f"{prefix}{STAGE}": "outdated"}
    assert publish(loaded, address, wanted) == {}
    assert count(loaded, f"{prefix}{STAGE}") == 2


@pytest.mark.parametrize(
    ("location", "expected"),
    [("gs://bucket/a", "gs://bucket/a"), ("hdfs://missing/a", "hdfs://missing/a"), ("/w/a", "file:/w/a")],
)
def test_location_on_another_file_system_is_not_opened(loaded: Dataset, location: str, expected: str):
    manifest = PublishManifest((), (), mark_of(loaded.warehouse), "embedded")
    catalog = EmbeddedCatalog(loaded.spark, loaded.warehouse, manifest)
    assert catalog.located(location) == expected


@pytest.fixture
def metastore(loaded: Dataset, monkeypatch):
    """Replace the client of a metastore by a catalog of Spark in memory, and return it."""
    context = loaded.spark.sparkContext._jsc.sc()
    catalogs = jvm_of(loaded.spark).org.apache.spark.sql.catalyst.catalog
    catalog = catalogs.InMemoryCatalog(context.conf(), context.hadoopConfiguration())
    monkeypatch.setattr(external, "_client", lambda session: catalog)
    monkeypatch.setattr(external, "_AT_ONCE", 2)
    return catalog


def test_names_with_capital_letters_are_published_and_renamed_in_a_metastore(loaded: Dataset, metastore):
    wanted = names(loaded, "", schema="RawCapital", name="Rc_T_Published")
    address = "thrift://m:9083"
    assert publish(loaded, address, wanted) == {}
    assert publish(loaded, address, wanted, check=True) == {}
    renamed = names(loaded, "", schema="RawOther", name="RC_t_Published")
    assert publish(loaded, address, renamed, former=wanted) == {}
    assert publish(loaded, address, wanted, former=renamed) == {}


class UnreadableTable:
    """Client of a metastore that fails on one table, as Spark's does on a materialized view of Hive."""

    def __init__(self, client, name: str) -> None:
        self._client, self._name = client, name

    def __getattr__(self, call: str):
        return partial(self._call, call)

    def _call(self, call: str, schema: str = "", *arguments):
        if call == "getTable" or (call == "getTablesByName" and arguments[0].contains(self._name)):
            raise Py4JError("not supported")
        return getattr(self._client, call)(*filter(None, [schema]), *arguments)


def test_table_that_the_client_of_a_metastore_cannot_read_is_foreign(loaded: Dataset, metastore, monkeypatch):
    wanted, raw = names(loaded, "unread_"), "unread_raw.raw_t_published"
    assert publish(loaded, "thrift://m:9083", wanted) == {}
    client = UnreadableTable(metastore, raw.partition(".")[2])
    monkeypatch.setattr(external, "_client", lambda session: client)
    problems = publish(loaded, "thrift://m:9083", wanted, check=True)
    assert problems == {raw: "foreign", f"unread_{STAGE}": "outdated"}


def test_table_of_a_metastore_that_names_another_table_of_the_warehouse_is_altered(loaded: Dataset, metastore):
    wanted = names(loaded, "swapped_")
    address, (history, current) = "thrift://m:9083", ("rc_t_published_hist", "rc_t_published")
    assert publish(loaded, address, wanted) == {}
    metastore.dropTable("swapped_rawcore", history, True, False)
    metastore.renameTable("swapped_rawcore", current, history)
    problems = {f"swapped_rawcore.{history}": "outdated", f"swapped_rawcore.{current}": "missing"}
    assert publish(loaded, address, wanted, check=True) == problems
    assert publish(loaded, address, wanted) == {}


def test_published_table_replaces_a_view_of_its_name_in_the_embedded_catalog(loaded: Dataset):
    wanted = names(loaded, "kind_", name="RC_t_published")
    loaded.spark.sql("CREATE SCHEMA kind_rawcore")
    loaded.spark.sql(f"CREATE VIEW kind_{ITEM} AS SELECT 1 AS one")
    assert publish(loaded, "embedded", wanted) == {}
    assert count(loaded, f"kind_{ITEM}") == 2


def test_names_that_a_catalog_cannot_hold_are_reported_as_unsupported(loaded: Dataset):
    wanted = names(loaded, "")
    loaded.spark.sql("CREATE SCHEMA `database`.rawcore")
    loaded.spark.sql(f"CREATE TABLE `database`.{ITEM} (a INT)")
    problems = publish(loaded, "spark:database", wanted)
    assert problems == {name.name: "unsupported" for name in wanted} | {ITEM: "foreign"}


@pytest.mark.parametrize(
    ("address", "code", "message"),
    [
        ("spark:nowhere", "UNKNOWN_CATALOG", "Spark knows no catalog nowhere"),
        ("spark:missing", "CATALOG_DOWN", "the catalog spark:missing does not answer as expected: .*MissingCatalog"),
    ],
)
def test_publish_refuses_an_unknown_or_unreachable_catalog(loaded: Dataset, address, code, message):
    with pytest.raises(Refusal, match=message) as refused:
        publish(loaded, address, names(loaded, "none_"))
    assert (refused.value.code, "ELEVATA_SPARK_CONF" in refused.value.hint) == (code, True)
