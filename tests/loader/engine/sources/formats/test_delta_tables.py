"""Delta tables of other writers as sources: one version, the types of the table, errors by business key."""

import json
import shutil
from pathlib import Path

import pytest

from loader.contract.manifest.sources import DeliveredColumn, SourceSpec
from loader.contract.refusals import Refusal
from loader.engine.sources.deliveries import read_delivery
from tests.loader.engine.sources.deliveries import KEY

pytestmark = pytest.mark.spark

CONTRACT = (KEY, DeliveredColumn("k-n", "n", "integer"), DeliveredColumn("k-city", "place.city", "string"))
ROWS = "SELECT 'a' id, 1L n, named_struct('city', 'Oslo') place UNION ALL SELECT 'b', 2L, NULL"


def table(spark, path, query=ROWS):
    spark.sql(query).write.format("delta").mode("append").save(str(path))
    return str(path)


def read(spark, location):
    return read_delivery(spark, SourceSpec("lake.t", location, "delta", CONTRACT))


@pytest.mark.core
def test_delta_read_returns_the_version_at_its_start(spark, tmp_path):
    location = table(spark, tmp_path / "t")
    delivery = read(spark, location)
    table(spark, tmp_path / "t", "SELECT 'c' id, 3L n, named_struct('city', 'Rome') place")
    spark.sql(f"DELETE FROM delta.`{location}` WHERE id = 'a'")
    rows = sorted(map(tuple, delivery.frame.collect()))
    delivery.check_unchanged()
    delivery.release()
    assert rows == [("a", 1, "Oslo"), ("b", 2, None)]


def test_deleted_rows_are_not_read_although_their_files_remain(spark, tmp_path):
    location = table(spark, tmp_path / "t")
    spark.sql(f"DELETE FROM delta.`{location}` WHERE id = 'a'")
    delivery = read(spark, location)
    delivery.release()
    assert delivery.rows == 1


def test_columns_outside_the_contract_are_reported(spark, tmp_path):
    location = table(spark, tmp_path / "t", ROWS.replace("1L n", "1L n, current_date() day").replace("2L", "2L, NULL"))
    delivery = read(spark, location)
    delivery.release()
    assert [(column["name"], column["type"]) for column in delivery.unknown] == [("day", "date")]


def test_a_value_that_does_not_fit_is_named_by_its_key(spark, tmp_path):
    with pytest.raises(Refusal) as caught:
        read(spark, table(spark, tmp_path / "t", ROWS.replace("2L", "3000000000L")))
    assert (caught.value.code, caught.value.samples) == ("VALUE_DOES_NOT_FIT", ("id=b: 3000000000",))


def test_a_folder_without_a_table_is_refused(spark, tmp_path):
    with pytest.raises(Refusal, match="there is no Delta table") as caught:
        read(spark, str(tmp_path))
    assert caught.value.code == "MISSING_TABLE"


def test_a_broken_log_is_refused(spark, tmp_path):
    location = table(spark, tmp_path / "t")
    log = tmp_path / "t" / "_delta_log"
    for file in log.glob("*.json"):
        file.write_text("{")
    with pytest.raises(Refusal) as caught:
        read(spark, location)
    assert caught.value.code == "UNREADABLE_TABLE"


def copy_of(location: str) -> tuple[str, list[Path]]:
    """Return a copy of a table, which the session does not know yet, and its commits, without their checksums."""
    log = Path(shutil.copytree(location, f"{location} copy")) / "_delta_log"
    for file in log.glob("*.json.crc"):
        file.unlink()
    return str(log.parent), sorted(log.glob("*.json"))


def test_compacted_copy_of_commits_is_not_read(spark, tmp_path):
    original = table(spark, tmp_path / "t")
    spark.sql(f"DELETE FROM delta.`{original}` WHERE id = 'a'")
    location, commits = copy_of(original)
    shutil.copy(commits[0], commits[0].with_name(f"{0:020}.{1:020}.compacted.json"))
    commits[1].with_suffix(".crc").unlink()
    assert [row["id"] for row in read(spark, location).frame.collect()] == ["b"]


def test_file_that_is_in_a_table_twice_is_refused(spark, tmp_path):
    original = str(tmp_path / "t")
    rows = spark.sql(ROWS).coalesce(1).write.format("delta")
    rows.option("delta.enableDeletionVectors", True).save(original)
    spark.sql(f"DELETE FROM delta.`{original}` WHERE id = 'a'")
    location, commits = copy_of(original)
    lines = [line for line in commits[1].read_text().split("\n") if '"remove"' not in line]
    commits[1].write_text("\n".join(lines))
    commits[1].with_suffix(".crc").unlink()
    with pytest.raises(Refusal, match="has the file part-[^ ]+ twice, with other deleted rows each time") as caught:
        read(spark, location)
    assert caught.value.code == "UNREADABLE_TABLE"


def test_log_with_a_path_that_is_no_address_is_refused(spark, tmp_path):
    location, (commit,) = copy_of(table(spark, tmp_path / "t"))
    commit.write_text(commit.read_text().replace('"path":"part-', '"path":"at=10:00/part-'))
    commit.with_suffix(".crc").unlink()
    with pytest.raises(Refusal, match="cannot be read: Illegal character in scheme name") as caught:
        read(spark, location)
    assert caught.value.code == "UNREADABLE_TABLE"


@pytest.mark.parametrize(
    ("columns", "wrong"), [({"place": "geometry(OGC:CRS84)"}, "cannot be read: .*Geospatial"), ({}, "has no columns")]
)
def test_table_whose_columns_delta_cannot_read_is_refused(spark, tmp_path, columns, wrong):
    fields = [{"name": name, "type": kind, "nullable": True, "metadata": {}} for name, kind in columns.items()]
    features = {"readerFeatures": ["geospatial"], "writerFeatures": ["geospatial"]} if columns else {}
    metadata = {"id": "t", "format": {"provider": "parquet", "options": {}}, "partitionColumns": []}
    metadata |= {"schemaString": json.dumps({"type": "struct", "fields": fields}), "configuration": {}}
    reader, writer = (3, 7) if columns else (1, 2)
    log = tmp_path / "t" / "_delta_log"
    log.mkdir(parents=True)
    lines = [{"protocol": {"minReaderVersion": reader, "minWriterVersion": writer} | features}, {"metaData": metadata}]
    (log / f"{0:020}.json").write_text("\n".join(map(json.dumps, lines)))
    with pytest.raises(Refusal, match=wrong) as caught:
        read(spark, str(tmp_path / "t"))
    assert caught.value.code == "UNREADABLE_TABLE"


def test_wrong_checksum_of_another_owners_table_is_named_and_stays(spark, tmp_path):
    location, (commit,) = copy_of(table(spark, tmp_path / "t"))
    checksum = commit.with_suffix(".crc")
    content = json.loads(checksum.read_text())
    checksum.with_name(f".{checksum.name}.crc").unlink()
    checksum.write_text(json.dumps(content | {"txnId": "another"}))
    with pytest.raises(Refusal, match="contradicts the checksum of version 0: it was written for another commit"):
        read(spark, location)
    assert checksum.exists()
