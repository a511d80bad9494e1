"""Tests of canonical JSON: equal values give equal bytes, whatever the key order or the hash seed.

Values without a canonical text are refused.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import uuid
from collections import OrderedDict, namedtuple
from dataclasses import dataclass
from datetime import UTC, date, datetime
from decimal import Decimal
from enum import StrEnum
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from elevata.core.canonical_json import canonical_json, sha256_hex

ROOT = Path(__file__).parents[3]
TEXT = st.text(alphabet=st.characters(exclude_categories=["Cs"]))
VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | TEXT,
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(TEXT, inner, max_size=4),
    max_leaves=20,
)


@dataclass(frozen=True)
class Column:
    name: str


class Kind(StrEnum):
    TABLE = "table"


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        ({"b": 1, "a": [True, None, "x"]}, b'{"a":[true,null,"x"],"b":1}'),
        ((1, 2), b"[1,2]"),
        ({}, b"{}"),
        ('é/\u2028"\\\n\x00', '"é/\u2028\\"\\\\\\n\\u0000"'.encode()),
        ({"e\u0301": 1, "é": 2, "Z": 3, "a": 4, "": 5}, '{"":5,"Z":3,"a":4,"e\u0301":1,"é":2}'.encode()),
        ({"\U0001f600": 1, "\uffee": 2}, '{"\uffee":2,"\U0001f600":1}'.encode()),
        (10**30, b"1" + b"0" * 30),
        (-0, b"0"),
    ],
)
def test_canonical_json_has_fixed_bytes_for_known_values(value: object, expected: bytes) -> None:
    assert canonical_json(value) == expected


def test_digest_of_a_known_value_is_fixed() -> None:
    value = {"name": "Zürich", "columns": [{"name": "lid", "nullable": True}], "version": 1}
    assert sha256_hex(value) == "00673baef59f9c15476c09208b8cca9e300a740843e2b9925d680edb11d6a6db"


@pytest.mark.parametrize(
    ("value", "message"),
    [
        ({"a": [1, 1.5]}, "$.a[1]: float"),
        ({"price": Decimal("1.10")}, "$.price: decimal.Decimal"),
        ([datetime(2026, 1, 1, tzinfo=UTC)], "$[0]: datetime.datetime"),
        (date(2026, 1, 1), "$: datetime.date"),
        ({"key": uuid.UUID(int=1)}, "$.key: uuid.UUID"),
        ({"columns": {"a", "b"}}, "$.columns: set"),
        (b"bytes", "$: bytes"),
        ({"column": Column("a")}, "$.column: tests.elevata.core.test_canonical_json.Column"),
        ({"kind": Kind.TABLE}, "$.kind: tests.elevata.core.test_canonical_json.Kind"),
        (OrderedDict(a=1), "$: collections.OrderedDict"),
        ([namedtuple("Pair", "a b")(1, 2)], "$[0]: tests.elevata.core.test_canonical_json.Pair"),
        ({"a": {1: "x"}}, "$.a: the key 1 is int"),
        ({"a": {None: "x"}}, "$.a: the key None is NoneType"),
    ],
)
def test_value_without_a_canonical_text_is_refused_with_its_path(value: object, message: str) -> None:
    with pytest.raises(TypeError) as refused:
        canonical_json(value)
    assert str(refused.value).startswith(message)


def test_a_lone_surrogate_is_refused() -> None:
    with pytest.raises(ValueError, match="UTF-8"):
        canonical_json({"name": "\ud800"})


@given(VALUES)
def test_canonical_json_is_parsed_back_to_the_same_value(value: object) -> None:
    assert json.loads(canonical_json(value)) == value


@given(st.dictionaries(TEXT, VALUES), st.randoms(use_true_random=False))
def test_the_order_of_keys_does_not_matter(value: dict, random) -> None:
    shuffled = list(value.items())
    random.shuffle(shuffled)
    assert canonical_json(dict(shuffled)) == canonical_json(value)


@given(VALUES, VALUES)
def test_different_values_have_different_bytes(first: object, second: object) -> None:
    # repr distinguishes True from 1, unlike ==.
    if repr(first) != repr(second) and first != second:
        assert canonical_json(first) != canonical_json(second)
    assert canonical_json(True) != canonical_json(1)


def test_hash_seed_and_locale_do_not_matter() -> None:
    program = (
        "from elevata.core.canonical_json import sha256_hex\n"
        "print(sha256_hex({name: {'\\u00e9' + name: [name]} for name in {'b', 'a', 'z', '\\u00c4', 'lid'}}))"
    )
    digests = {
        subprocess.run(
            [sys.executable, "-c", program],
            env={**os.environ, "PYTHONHASHSEED": str(seed), "LC_ALL": locale, "PYTHONUTF8": "0"},
            cwd=ROOT,
            check=True,
            capture_output=True,
            encoding="utf-8",
        ).stdout
        for seed, locale in [(0, "C"), (1, "C.UTF-8"), (2, "C"), (42, "C.UTF-8")]
    }
    assert len(digests) == 1
