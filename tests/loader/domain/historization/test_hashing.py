"""Encoding v2 in Python: fixed texts and digests, and properties of every value."""

from datetime import UTC, date, datetime, timedelta, timezone
from decimal import Decimal

import pytest
from hypothesis import given
from hypothesis import strategies as st

from loader.domain.historization.hashing import canonical_text, digest, encode

CANONICAL = [
    (None, None),
    ("", ""),
    ("  Straße | ~ \\ ", "  Straße | ~ \\ "),
    (True, "true"),
    (False, "false"),
    (0, "0"),
    (-17, "-17"),
    (2**63 - 1, "9223372036854775807"),
    (Decimal("1.10"), "1.1"),
    (Decimal("5.00"), "5"),
    (Decimal(100), "100"),
    (Decimal("-0.00"), "0"),
    (Decimal("-0.0"), "0"),
    (Decimal("1E+3"), "1000"),
    (Decimal("0.0000000100"), "0.00000001"),
    (Decimal("12345678901234567890123456789012345.678"), "12345678901234567890123456789012345.678"),
    (450.0, "450"),
    (-0.0, "0"),
    (0.0, "0"),
    (-3.0, "-3"),
    (float(2**53 - 1), "9007199254740991"),
    (float(2**53), "0x1.0p53"),
    (-float(2**53), "-0x1.0p53"),
    (0.1, "0x1.999999999999ap-4"),
    (-151.695999146, "-0x1.2f645a00043a5p7"),
    (1.5, "0x1.8p0"),
    (5e-324, "0x0.0000000000001p-1022"),
    (1.7976931348623157e308, "0x1.fffffffffffffp1023"),
    (float("nan"), "NaN"),
    (float("inf"), "Infinity"),
    (float("-inf"), "-Infinity"),
    (date(1970, 1, 2), "86400000000"),
    (date(1, 1, 1), "-62135596800000000"),
    (datetime(1970, 1, 1, 0, 0, 1, 5), "1000005"),
    (datetime(1969, 12, 31, 23, 59, 59, 999999), "-1"),
    (datetime(9999, 12, 31, 23, 59, 59, 999999), "253402300799999999"),
    (datetime(1970, 1, 1, 2, tzinfo=timezone(timedelta(hours=2))), "0"),
    (b"\x00\xab~", "00ab7e"),
]

ENCODED = [
    ([], ""),
    ([("a", None)], ""),
    ([("a", "")], "a~"),
    ([("b", 1), ("a", "x")], "a~x|b~1"),
    ([("a", "x"), ("c", None), ("b", 1)], "a~x|b~1"),
    ([("a", "x|b~1")], "a~x\\|b\\~1"),
    ([("a", "\\|")], "a~\\\\\\|"),
    ([("a|b", 1)], "a\\|b~1"),
]

DIGESTS = [
    ([], "", "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855"),
    ([("a", "x"), ("b", 1)], "", "9687aea03836de561c789dd81a8806e426c353b09bca7a429093bc7779bfc594"),
    (
        [("a", "Zürich"), ("b", 0.1), ("c", Decimal("1.10")), ("d", date(2024, 2, 29))],
        "",
        "1235528dd0dd4a5972f486f5b2c0b6d0b28beb779ae931d08f376253833c2adb",
    ),
    ([("a", "x"), ("b", 1)], "pepper", "1e6fac8b704484ee55dcd7f1ae2cb217462ed7410e164ffcc3ebe6f5a3212fa6"),
]


@pytest.mark.parametrize(("value", "text"), CANONICAL, ids=lambda value: repr(value)[:40])
def test_canonical_text_of_each_value_is_fixed(value, text):
    assert canonical_text(value) == text


@pytest.mark.parametrize(("components", "text"), ENCODED)
def test_encode_returns_the_fixed_text(components, text):
    assert encode(components) == text


@pytest.mark.parametrize(("components", "pepper", "expected"), DIGESTS)
def test_digest_returns_the_fixed_hash(components, pepper, expected):
    assert digest(components, pepper) == expected


def test_peppered_digest_differs_from_one_with_the_pepper_as_component():
    assert digest([("a", "x")], "p") not in {digest([("a", "x")]), digest([("p", ""), ("a", "x")])}


@pytest.mark.parametrize("value", [Decimal("NaN"), Decimal("Infinity")])
def test_decimal_nan_or_infinity_is_refused(value):
    with pytest.raises(ValueError, match="no canonical text"):
        canonical_text(value)


@pytest.mark.parametrize("value", [[1], {"a": 1}, object(), 1j])
def test_an_unknown_type_is_refused(value):
    with pytest.raises(TypeError, match="no canonical text"):
        canonical_text(value)


def test_duplicate_component_id_is_refused():
    with pytest.raises(ValueError, match="'a' comes twice"):
        encode([("a", 1), ("b", 1), ("a", None)])


texts = st.text(st.sampled_from("ab\\~|ü\n"), max_size=6) | st.text(max_size=6)
named_texts = st.dictionaries(texts, texts | st.none(), max_size=5)


def decode(encoded: str) -> dict[str, str]:
    """Parse an encoded text back into components, character by character with escapes."""
    parts, current, escaped = [[""]], 0, False
    for character in encoded:
        if escaped or character not in "\\~|":
            parts[-1][current] += character
            escaped = False
        elif character == "\\":
            escaped = True
        elif character == "~":
            parts[-1].append("")
            current += 1
        else:
            parts.append([""])
            current = 0
    return dict(parts) if encoded else {}


@given(named_texts)
def test_encoding_is_injective(components):
    assert decode(encode(components.items())) == {k: v for k, v in components.items() if v is not None}


@given(named_texts, st.randoms())
def test_order_and_null_components_do_not_change_the_digest(components, random):
    shuffled = list(components.items())
    random.shuffle(shuffled)
    present = [(name, value) for name, value in components.items() if value is not None]
    assert digest(shuffled) == digest(present)


@given(st.integers(-(2**63), 2**63 - 1), st.integers(0, 6))
def test_widening_an_integer_to_a_decimal_changes_nothing(number, scale):
    wider = Decimal(f"{number}.{'0' * scale}") if scale else Decimal(number)
    assert canonical_text(wider) == canonical_text(number)


@given(st.integers(-(2**31), 2**31 - 1))
def test_widening_an_integer_to_a_float_changes_nothing(number):
    assert canonical_text(float(number)) == canonical_text(number)


@given(st.decimals(allow_nan=False, allow_infinity=False, places=4, min_value=-(10**20), max_value=10**20))
def test_widening_a_decimal_changes_nothing(number):
    assert canonical_text(Decimal(f"{number:f}000")) == canonical_text(number)


@given(st.dates())
def test_widening_a_date_to_a_timestamp_changes_nothing(day):
    assert canonical_text(datetime(day.year, day.month, day.day)) == canonical_text(day)


@given(st.datetimes(), st.integers(-12, 14))
def test_a_timestamp_without_a_zone_is_utc(moment, hours):
    utc = moment.replace(tzinfo=UTC)
    assert canonical_text(utc) == canonical_text(moment)
    try:
        elsewhere = utc.astimezone(timezone(timedelta(hours=hours)))
    except OverflowError:  # the same moment lies in the year 0 or 10000 there
        return
    assert canonical_text(elsewhere) == canonical_text(moment)


@given(st.floats(allow_nan=False))
def test_a_float_keeps_every_bit(number):
    text = canonical_text(number)
    if "x" in text:
        assert float.fromhex(text) == number
    else:
        assert float(text) == number
