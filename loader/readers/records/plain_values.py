"""Values of Arrow in types that Spark has, too.

Times of day become text like ``10:30:00.5``, and UUIDs their text. Timestamps are cut to microseconds, downwards, as if
their last digits were deleted; the rows in which digits other than zero are lost are marked.
"""

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from uuid import UUID

import pyarrow as pa
import pyarrow.compute as pc

from loader.readers.records.headers import repeated_fields

# Kinds of leaves that Arrow's types do not tell: timestamps of 96 bits are instants, UUIDs are text.
INT96, UUID_LEAF = "INT96", "UUID"
_PRECISION = 38
_FIRST_DAY, _LAST_DAY = -719_162, 2_932_896  # 0001-01-01 and 9999-12-31, in days since 1970
_MICROSECONDS_OF_DAY = 86_400_000_000
# Fields of a variant: one of the last two may be missing.
_VARIANT = {"metadata", "value", "typed_value"}
_SAME = (
    pa.types.is_boolean,
    pa.types.is_signed_integer,
    pa.types.is_float32,
    pa.types.is_float64,
    pa.types.is_date32,
    pa.types.is_string,
    pa.types.is_binary,
)
_OTHERS: tuple[tuple[Callable[[pa.DataType], bool], pa.DataType], ...] = (
    (pa.types.is_null, pa.string()),
    (pa.types.is_float16, pa.float32()),
    (pa.types.is_uint8, pa.int16()),
    (pa.types.is_uint16, pa.int32()),
    (pa.types.is_uint32, pa.int64()),
    (pa.types.is_uint64, pa.decimal128(20, 0)),
    (pa.types.is_duration, pa.int64()),
    (pa.types.is_date64, pa.date32()),
    (pa.types.is_time, pa.string()),
    (pa.types.is_large_string, pa.string()),
    (pa.types.is_string_view, pa.string()),
    (pa.types.is_large_binary, pa.binary()),
    (pa.types.is_fixed_size_binary, pa.binary()),
    (pa.types.is_binary_view, pa.binary()),
)


class UnreadableType(Exception):
    """Error raised for a type of which there are no values in Spark; its text is the reason."""


class RepeatedFields(UnreadableType):
    """Error raised for a struct with fields whose names differ in case only."""


@dataclass(frozen=True)
class PlainColumn:
    """Values of a column. ``cut`` is True for rows in which digits below microseconds were cut."""

    values: pa.Array
    cut: pa.Array


def plain_type(kind: pa.DataType, leaves: Sequence[str] = ()) -> pa.DataType:
    """Return the type in which values of an Arrow type are delivered. Raise UnreadableType.

    ``leaves`` are the kinds of its leaves in their order: INT96, UUID_LEAF or another text.
    """
    if pa.types.is_dictionary(kind):
        return plain_type(kind.value_type, leaves)
    if isinstance(kind, pa.BaseExtensionType):
        return plain_type(kind.storage_type, leaves)
    if pa.types.is_nested(kind):
        return _nested_type(kind, leaves)
    if UUID_LEAF in leaves:
        return pa.string()
    if pa.types.is_timestamp(kind):
        return pa.timestamp("us", "UTC" if kind.tz or INT96 in leaves else None)
    if pa.types.is_decimal(kind):
        return _decimal_type(kind)
    if any(is_kind(kind) for is_kind in _SAME):
        return kind
    plain = next((plain for is_kind, plain in _OTHERS if is_kind(kind)), None)
    if plain is None:
        raise _no_type()
    return plain


def leaf_count(kind: pa.DataType) -> int:
    """Return the number of leaves of a type, each of which is a column of its own in Parquet."""
    if pa.types.is_dictionary(kind):
        return leaf_count(kind.value_type)
    if isinstance(kind, pa.BaseExtensionType):
        return leaf_count(kind.storage_type)
    if pa.types.is_map(kind):
        return leaf_count(kind.key_type) + leaf_count(kind.item_type)
    if not pa.types.is_nested(kind):
        return 1
    return sum(leaf_count(kind.field(place).type) for place in range(kind.num_fields))


def _divided(leaves: Sequence[str], kinds: Iterable[pa.DataType]) -> Iterator[Sequence[str]]:
    """Yield the kinds of the leaves of each of several types."""
    start = 0
    for kind in kinds:
        end = start + leaf_count(kind)
        yield leaves[start:end]
        start = end


def _no_type() -> UnreadableType:
    return UnreadableType("of a type that tables do not have")


def _decimal_type(kind: pa.DataType) -> pa.DataType:
    if kind.precision > _PRECISION or not 0 <= kind.scale <= kind.precision:
        raise UnreadableType(f"a number of {kind.precision} digits with {kind.scale} decimals; the most are 38")
    return pa.decimal128(kind.precision, kind.scale)


def _nested_type(kind: pa.DataType, leaves: Sequence[str]) -> pa.DataType:
    if pa.types.is_map(kind):
        kinds = (kind.key_type, kind.item_type)
        return pa.map_(*map(plain_type, kinds, _divided(leaves, kinds)))
    if pa.types.is_list(kind) or pa.types.is_large_list(kind) or pa.types.is_fixed_size_list(kind):
        return pa.list_(plain_type(kind.value_type, leaves))
    if not pa.types.is_struct(kind):
        raise _no_type()
    fields = [kind.field(place) for place in range(kind.num_fields)]
    if not fields:
        raise UnreadableType("a structure without fields")
    if _is_variant({field.name: field.type for field in fields}):
        raise UnreadableType("a variant, which is read only of files that Spark reads as a whole")
    if problem := repeated_fields([field.name for field in fields]):
        raise RepeatedFields(problem)
    divided = _divided(leaves, (field.type for field in fields))
    return pa.struct([(field.name, plain_type(field.type, own)) for field, own in zip(fields, divided, strict=True)])


def _is_variant(kinds: dict[str, pa.DataType]) -> bool:
    has_value = "value" in kinds or "typed_value" in kinds
    return has_value and kinds.keys() <= _VARIANT and kinds.get("metadata") in (pa.binary(), pa.large_binary())


def plain_column(values: pa.Array, leaves: Sequence[str] = ()) -> PlainColumn:
    """Return the values in their plain type, and the rows in which digits were cut. Raise UnreadableType."""
    wanted = plain_type(values.type, leaves)
    return PlainColumn(_plain(values, wanted, leaves), _rows_with(values, _is_cut))


def far_rows(values: pa.Array) -> pa.Array:
    """Return for each row if it has a date or timestamp outside of the years 1 to 9999; ``values`` are plain."""
    return _rows_with(values, _is_far)


def undecoded_rows(values: pa.Array) -> pa.Array:
    """Return for each row if it has a text that is not UTF-8."""
    return _rows_with(values, _is_undecoded)


def _plain(values: pa.Array, wanted: pa.DataType, leaves: Sequence[str]) -> pa.Array:
    kind = values.type
    if pa.types.is_dictionary(kind):
        return _plain(values.dictionary_decode(), wanted, leaves)
    if isinstance(kind, pa.BaseExtensionType):
        return _plain(values.storage, wanted, leaves)
    if kind == wanted:
        return values
    if UUID_LEAF in leaves and not pa.types.is_nested(kind):
        return pa.array([None if value is None else str(UUID(bytes=value)) for value in values.to_pylist()], wanted)
    if pa.types.is_timestamp(kind):
        return _microseconds(values, wanted)
    if pa.types.is_time(kind):
        return _time_text(values)
    if pa.types.is_map(kind):
        inner = pa.struct([("key", wanted.key_type), ("value", wanted.item_type)])
        pairs = _plain(_pairs(values), pa.list_(inner), leaves)
        key, value = pairs.values.flatten()
        return pa.MapArray.from_arrays(pairs.offsets, key, value, type=wanted, mask=pairs.is_null())
    if pa.types.is_struct(kind):
        children = values.flatten()
        divided = _divided(leaves, (child.type for child in children))
        parts = [_plain(child, field.type, own) for child, field, own in zip(children, wanted, divided, strict=True)]
        return pa.StructArray.from_arrays(parts, fields=list(wanted), mask=values.is_null())
    if pa.types.is_list(wanted):
        parts = _plain(values.flatten(), wanted.value_type, leaves)
        lengths = pc.list_value_length(values).cast(pa.int32())
        ends = pc.cumulative_sum(pc.fill_null(lengths, 0))
        offsets = pa.concat_arrays([pa.array([0], pa.int32()), ends])
        return pa.ListArray.from_arrays(offsets, parts, type=wanted, mask=values.is_null())
    return values.cast(wanted)


def _pairs(values: pa.Array) -> pa.Array:
    kind = values.type
    return values.cast(pa.list_(pa.struct([("key", kind.key_type), ("value", kind.item_type)])))


def _microseconds(values: pa.Array, wanted: pa.DataType) -> pa.Array:
    if values.type.unit == "ns":
        zone = values.type.tz
        whole = pc.floor_temporal(values.cast(pa.timestamp("ns")) if zone else values, unit="microsecond")
        values = whole.cast(pa.timestamp("us"))
    return values.cast(pa.timestamp("us", values.type.tz)).cast(pa.int64()).cast(wanted)


def _time_text(values: pa.Array) -> pa.Array:
    """Return times of day as text with at most six decimals, without zeros at their end."""
    text = pc.utf8_slice_codeunits(values.cast(pa.string()), 0, len("hh:mm:ss.ffffff"))
    return pc.replace_substring_regex(text, r"(\.\d*[1-9])0+$|\.0+$", r"\1")


# Rows that have a certain value, at the top or inside of nested ones.
def _rows_with(values: pa.Array, test: Callable[[pa.Array], pa.Array | None]) -> pa.Array:
    """Return for each row if one of its values fulfils the test, which is None for types that it does not concern."""
    rows = _nested_rows_with(values, test)
    return pa.repeat(pa.scalar(False), len(values)) if rows is None else pc.fill_null(rows, False)


def _nested_rows_with(values: pa.Array, test: Callable[[pa.Array], pa.Array | None]) -> pa.Array | None:
    kind = values.type
    if pa.types.is_dictionary(kind):
        return _nested_rows_with(values.dictionary_decode(), test)
    if isinstance(kind, pa.BaseExtensionType):
        return _nested_rows_with(values.storage, test)
    if pa.types.is_map(kind):
        return _nested_rows_with(_pairs(values), test)
    if pa.types.is_struct(kind):
        tested = [_nested_rows_with(part, test) for part in values.flatten()]
        parts = [pc.fill_null(part, False) for part in tested if part is not None]
        return None if not parts else _any_of(parts)
    if pa.types.is_list(kind) or pa.types.is_large_list(kind) or pa.types.is_fixed_size_list(kind):
        inner = _nested_rows_with(values.flatten(), test)
        if inner is None:
            return None
        rows = set(pc.list_parent_indices(values).filter(pc.fill_null(inner, False)).to_pylist())
        return pa.array([row in rows for row in range(len(values))], pa.bool_())
    return test(values)


def _any_of(parts: list[pa.Array]) -> pa.Array:
    result, *others = parts
    for part in others:
        result = pc.or_(result, part)
    return result


def _is_cut(values: pa.Array) -> pa.Array | None:
    kind = values.type
    if not (pa.types.is_timestamp(kind) or pa.types.is_time64(kind)) or kind.unit != "ns":
        return None
    number = values.cast(pa.int64())
    return pc.not_equal(pc.multiply(pc.divide(number, 1000), 1000), number)


def _is_undecoded(values: pa.Array) -> pa.Array | None:
    if not (pa.types.is_string(values.type) or pa.types.is_large_string(values.type)):
        return None
    try:
        values.validate(full=True)
    except pa.ArrowInvalid:
        return pa.array([not _is_utf8(content) for content in values.cast(pa.large_binary()).to_pylist()], pa.bool_())
    return pa.repeat(pa.scalar(False), len(values))


def _is_utf8(content: bytes | None) -> bool:
    try:
        (content or b"").decode()
    except UnicodeDecodeError:
        return False
    return True


def _is_far(values: pa.Array) -> pa.Array | None:
    if pa.types.is_date32(values.type):
        first, last, number = _FIRST_DAY, _LAST_DAY, values.cast(pa.int32())
    elif pa.types.is_timestamp(values.type):
        first, last = _FIRST_DAY * _MICROSECONDS_OF_DAY, (_LAST_DAY + 1) * _MICROSECONDS_OF_DAY - 1
        number = values.cast(pa.int64())
    else:
        return None
    return pc.or_(pc.less(number, first), pc.greater(number, last))
