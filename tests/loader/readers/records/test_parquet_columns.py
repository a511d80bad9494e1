"""Parquet files of other writers, read for pages: encrypted, broken, with texts that are not UTF-8."""

import json
from io import BytesIO
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
import pytest
from pyarrow import orc

from loader.contract.refusals import Refusal
from loader.engine.arrow import deliveries
from loader.engine.arrow.deliveries import Column, DeliveredFile, Delivery
from loader.engine.arrow.parquet_files import NotPlain
from loader.readers.records.avro_schemas import AvroSchema
from loader.readers.records.parquet_columns import footer_of_end, read_columns
from loader.readers.records.parquet_footers import column_parts
from loader.sources.file_samples import sample_files
from loader.sources.results import Sample
from metadata.domain.sources.locations import Roots
from tests.loader.parquet_bytes import undecoded, with_compression, with_encrypted_column, written

IDS = pa.array([1, 2], pa.int32())
TABLE = pa.table({"id": IDS, "v": ["x" * 100, "y" * 100]})


def sample_file(path: Path, content: bytes) -> Sample:
    path.write_bytes(content)
    return sample_files(path, path.suffix[1:], None, roots=Roots.of([str(path.parent)], folder="/"))


def problems(sample: Sample) -> dict[str, str]:
    return {column.name: column.problem for column in sample.columns}


def refused(path: Path, content: bytes) -> Refusal:
    with pytest.raises(Refusal) as caught:
        sample_file(path, content)
    return caught.value


def test_encrypted_column_is_named_and_the_others_are_sampled(tmp_path: Path):
    sample = sample_file(tmp_path / "a.parquet", with_encrypted_column(TABLE, "v"))
    assert problems(sample) == {"id": "", "v": "it is encrypted"}
    assert sample.values == (("1", "2"), (None, None))


def test_column_inside_of_an_encrypted_structure_is_named(tmp_path: Path):
    nested = pa.table({"id": IDS, "v": pa.array([{"a": 1, "b": 2}, {"a": 3, "b": 4}])})
    assert problems(sample_file(tmp_path / "a.parquet", with_encrypted_column(nested, "v.b")))["v"] == "it is encrypted"


def test_file_with_an_encrypted_column_is_not_read_by_spark():
    assert footer_of_end(written(TABLE), "a").read_by_spark
    assert not footer_of_end(with_encrypted_column(TABLE, "v"), "a").read_by_spark


def test_unknown_compression_is_refused(tmp_path: Path):
    assert refused(tmp_path / "a.parquet", with_compression(TABLE, 40)).code == "UNREADABLE_FILE"


def test_file_with_two_columns_of_one_name_is_refused(tmp_path: Path):
    refusal = refused(tmp_path / "a.parquet", written(pa.Table.from_arrays([IDS, IDS], ["v", "v"])))
    assert (refusal.code, refusal.column) == ("DUPLICATE_COLUMN", "v")


def test_typed_file_with_names_that_differ_only_in_case_is_refused(tmp_path: Path):
    table = pa.table({"Value": IDS, "id": IDS, "VALUE": IDS})
    orc.write_table(table, tmp_path / "written")
    for path, content in {"a.parquet": written(table), "a.orc": (tmp_path / "written").read_bytes()}.items():
        refusal = refused(tmp_path / path, content)
        assert (refusal.code, refusal.samples) == ("DUPLICATE_COLUMN", ("Value", "VALUE"))
    fields = [{"name": name, "type": "int"} for name in ("v", "V")]
    with pytest.raises(Refusal) as caught:
        AvroSchema.of(json.dumps({"type": "record", "name": "r", "fields": fields}), "a.avro")
    assert caught.value.code == "DUPLICATE_COLUMN"


@pytest.mark.parametrize("before", [b"parquet-cpp", b"name"])
def test_footer_that_is_not_utf_8_is_refused(tmp_path: Path, before: bytes):
    content = written(pa.table({"name": IDS}))
    assert before in content
    refusal = refused(tmp_path / "a.parquet", content.replace(before, b"\xff" + before[1:]))
    assert refusal.code == "UNREADABLE_FILE"


def test_row_group_with_fewer_columns_than_the_file_is_refused():
    content = written(pa.table({"v": IDS}), compression="none")
    no_columns = content.replace(b"\x19\x1c\x19\x1c&\x00", b"\x19\x1c\x19\x0c&\x00")
    with pytest.raises(Refusal) as caught:
        footer_of_end(no_columns, "a.parquet")
    assert caught.value.code == "UNREADABLE_FILE"


@pytest.mark.parametrize("footer", [b"", b"\xfc", b"\x1c" * 60, b"\x19\xfc\xff\xff\xff\x7f", written(TABLE)[-300:-100]])
def test_column_parts_of_a_broken_footer_raise_a_value_error(footer: bytes):
    with pytest.raises(ValueError, match="footer"):
        column_parts(footer + len(footer).to_bytes(4, "little") + b"PAR1")


@pytest.mark.parametrize(
    "values",
    [
        undecoded(b"a", b"\xc3("),
        pa.DictionaryArray.from_arrays(pa.array([0, 1]), undecoded(b"a", b"\xc3(")),
        pa.StructArray.from_arrays([undecoded(b"a", b"\xc3(")], ["a"]),
        pa.ListArray.from_arrays(pa.array([0, 1, 3], pa.int32()), undecoded(b"a", b"b", b"\xff")),
    ],
    ids=["text", "dictionary", "struct", "list"],
)
def test_text_that_is_not_utf_8_is_a_problem_of_its_column(tmp_path: Path, values: pa.Array):
    sample = sample_file(tmp_path / "a.parquet", written(pa.table({"id": IDS, "v": values})))
    assert problems(sample) == {"id": "", "v": "row 2 has a text that is not UTF-8"}
    assert sample.values[0] == ("1", "2")
    assert (sample.values[1][0] is None, sample.values[1][1]) == (False, None)


UUIDS = pa.ExtensionArray.from_storage(pa.uuid(), pa.array([bytes(range(16)), None], pa.binary(16)))
UUID_TEXT = "00010203-0405-0607-0809-0a0b0c0d0e0f"
BYTES = pa.array([b"x" * 16, None], pa.binary(16))


@pytest.mark.parametrize(
    ("values", "expected"),
    [
        (
            pa.StructArray.from_arrays([BYTES, UUIDS, BYTES], ["b", "u", "c"]),
            {"b": b"x" * 16, "u": UUID_TEXT, "c": b"x" * 16},
        ),
        (pa.ListArray.from_arrays(pa.array([0, 2, 2], pa.int32()), UUIDS), [UUID_TEXT, None]),
        (pa.MapArray.from_arrays(pa.array([0, 1, 1], pa.int32()), UUIDS[:1], BYTES[:1]), [(UUID_TEXT, b"x" * 16)]),
    ],
    ids=["struct", "list", "map"],
)
def test_uuid_inside_of_a_nested_value_is_a_text(values: pa.Array, expected: Any):
    content = written(pa.table({"id": BYTES, "v": values}))
    ((_, plain), _) = next(read_columns(BytesIO(content), "a.parquet", ["id", "v"]))
    assert plain.values[0].as_py() == expected
    assert plain.values.type == footer_of_end(content, "a.parquet").columns[1].type


def test_timestamp_of_96_bits_inside_of_a_nested_value_is_an_instant():
    table = pa.table({"v": pa.array([[1_000_000], None], pa.list_(pa.timestamp("ns")))})
    for is_instant in (True, False):
        content = written(table, use_deprecated_int96_timestamps=is_instant)
        ((plain,), _) = next(read_columns(BytesIO(content), "a.parquet", ["v"]))
        assert plain.values.type.value_type == pa.timestamp("us", "UTC" if is_instant else None)
        assert pc.list_flatten(plain.values).cast(pa.int64()).to_pylist() == [1_000]


def test_file_of_which_pyarrow_reads_fewer_rows_than_its_footer_declares_is_refused():
    content = written(pa.table({"v": [[1], [2]]}), row_group_size=1, data_page_size=1)
    assert not any(batch.num_rows for batch in pq.ParquetFile(BytesIO(content)).iter_batches())
    with pytest.raises(Refusal, match="declares 2 rows, but 0 were read") as caught:
        list(read_columns(BytesIO(content), "a.parquet", ["v"]))
    assert caught.value.code == "UNREADABLE_FILE"


def test_text_of_orc_that_is_not_utf_8_is_a_problem_of_its_column(tmp_path: Path):
    orc.write_table(pa.table({"id": IDS, "v": undecoded(b"a", b"\xc3(")}), tmp_path / "a.orc")
    sample = sample_file(tmp_path / "a.orc", (tmp_path / "a.orc").read_bytes())
    assert problems(sample) == {"id": "", "v": "row 2 has a text that is not UTF-8"}
    assert sample.values == (("1", "2"), ("a", None))


def test_small_load_leaves_texts_that_are_not_utf_8_to_the_general_load(tmp_path: Path):
    path = tmp_path / "a.parquet"
    path.write_bytes(written(pa.table({"id": IDS, "v": undecoded(b"a", b"\xc3(")})))
    file = DeliveredFile(str(path), path.stat().st_size, path.stat().st_mtime_ns // 1_000_000)
    delivery = Delivery("parquet", (file,), (Column("id", "integer"), Column("v", "string")))
    with pytest.raises(NotPlain):
        deliveries.read_delivery(delivery, 100)
