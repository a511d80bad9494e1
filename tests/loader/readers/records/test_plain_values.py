"""Values of Arrow in the types of Spark: exact, cut downwards, and with their rows marked."""

from decimal import Decimal

import pyarrow as pa
import pytest

from loader.readers.records.plain_values import UnreadableType, far_rows, plain_column, plain_type, undecoded_rows


@pytest.mark.parametrize(
    ("values", "expected", "cut"),
    [
        (pa.array([1, None, 3_600_500_000_000], pa.time64("ns")),
         ["00:00:00", None, "01:00:00.5"], [True, False, False]),
        (pa.array([36_000], pa.time32("s")), ["10:00:00"], [False]),
        (pa.array([[1_000], None, [], [2_001]], pa.list_(pa.time64("ns"))),
         [["00:00:00.000001"], None, [], ["00:00:00.000002"]], [False, False, False, True]),
        (pa.array([{"a": 1}, None], pa.struct([("a", pa.time64("ns"))])), [{"a": "00:00:00"}, None], [True, False]),
        (pa.array([[(1, 1)], None], pa.map_(pa.time64("ns"), pa.float16())),
         [[("00:00:00", 1.0)], None], [True, False]),
        (pa.array([2**64 - 1], pa.uint64()), [Decimal(2**64 - 1)], [False]),
        (pa.array(["a", None]).dictionary_encode(), ["a", None], [False, False]),
    ],
)  # fmt: skip
def test_plain_column_converts_whole_and_sliced_arrow_arrays(values: pa.Array, expected: list, cut: list[bool]):
    for start in range(len(values)):
        column = plain_column(values.slice(start))
        column.values.validate(full=True)
        assert column.values.to_pylist() == expected[start:]
        assert column.cut.to_pylist() == cut[start:]


def test_nanoseconds_before_1970_are_cut_downwards():
    column = plain_column(pa.array([-1, -1000], pa.timestamp("ns", "UTC")))
    assert column.values.cast(pa.int64()).to_pylist() == [-1, -1]
    assert column.cut.to_pylist() == [True, False]


@pytest.mark.parametrize("values", [{"value": pa.binary()}, {"typed_value": pa.list_(pa.string())},
                                    {"value": pa.binary(), "typed_value": pa.int32()}])  # fmt: skip
def test_variant_is_unreadable_whichever_of_its_values_are_stored(values: dict[str, pa.DataType]):
    with pytest.raises(UnreadableType, match="variant"):
        plain_type(pa.struct({"metadata": pa.binary()} | values))


@pytest.mark.parametrize("fields", [{"metadata": pa.binary()}, {"metadata": pa.string(), "value": pa.int32()},
                                    {"value": pa.binary(), "typed_value": pa.int32()}])  # fmt: skip
def test_structure_that_resembles_a_variant_is_read(fields: dict[str, pa.DataType]):
    assert plain_type(pa.struct(fields)) == pa.struct(fields)


@pytest.mark.parametrize("kind", [pa.decimal256(39, 0), pa.struct([]), pa.list_(pa.decimal256(60, 2))])
def test_types_that_spark_does_not_have_are_unreadable(kind: pa.DataType):
    with pytest.raises(UnreadableType):
        plain_type(kind)


def test_far_rows_marks_years_outside_of_1_to_9999_also_in_lists():
    days = pa.array([1, 2_932_896, 2_932_897, -719_163, None], pa.int32()).cast(pa.date32())
    assert far_rows(days).to_pylist() == [False, False, True, True, False]
    lists = pa.array([[1], [2_932_897], None, []], pa.list_(pa.int32())).cast(pa.list_(pa.date32()))
    assert far_rows(lists).to_pylist() == [False, True, False, False]


def test_undecoded_rows_marks_texts_that_are_not_utf_8_also_in_lists():
    texts = pa.array([b"a\xff", b"\xc3\xa4", None, b""]).view(pa.string())
    assert undecoded_rows(texts).to_pylist() == [True, False, False, False]
    lists = pa.ListArray.from_arrays([0, 1, 2, 4], texts)
    assert undecoded_rows(lists).to_pylist() == [True, False, False]
    assert undecoded_rows(pa.array([1])).to_pylist() == [False]
