"""Tests of the guided builder: choices become a SELECT, and a SELECT of that form becomes the same choices."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from metadata.domain.models import ModelProblem
from metadata.domain.models.builder import (
    FUNCTIONS,
    IS_NOT_NULL,
    IS_NULL,
    JOINS,
    Build,
    Condition,
    Join,
    Pick,
    alias_of,
    build_select,
    literal_of,
    read_build,
    value_of,
)

NAMES = st.sampled_from(("id", "net amount", "order", "größe", "a`b", "x1"))
VALUES = st.sampled_from(
    (("string", 'it\'s \\ "x"'), ("bigint", "-3"), ("decimal(4,2)", "1.50"), ("date", "2020-02-03"))
)


@st.composite
def builds(draw: st.DrawFn) -> Build:
    aliases = ["o", *draw(st.sampled_from(([], ["c"], ["c", "c_2"])))]
    columns = st.tuples(st.sampled_from(aliases), NAMES)
    joins = tuple(
        Join("s.c", alias, draw(st.sampled_from(tuple(JOINS))), draw(NAMES), "o", draw(NAMES)) for alias in aliases[1:]
    )
    names = draw(st.lists(NAMES, min_size=1, max_size=4, unique_by=str.lower))
    picks = tuple(Pick(*draw(columns), name, draw(st.sampled_from(tuple(FUNCTIONS)))) for name in names)
    conditions = [
        Condition(*draw(columns), draw(st.sampled_from((IS_NULL, IS_NOT_NULL)))) for _ in range(draw(st.integers(0, 2)))
    ]
    for _ in range(draw(st.integers(0, 2))):
        type_, text = draw(VALUES)
        conditions.append(
            Condition(*draw(columns), draw(st.sampled_from(("=", "<>", "<", ">="))), literal_of(text, type_))
        )
    return Build("s.o", "o", joins, picks, tuple(conditions))


@given(build=builds())
def test_built_select_is_read_as_the_same_build(build: Build) -> None:
    assert read_build(build_select(build)) == build


@pytest.mark.parametrize(("type_", "text"), [("string", "it's"), ("bigint", "3"), ("timestamp", "2020-01-02 03:04:05")])
def test_literal_value_is_shown_as_typed(type_: str, text: str) -> None:
    assert value_of(Condition("o", "x", "=", literal_of(text, type_))) == text


@pytest.mark.parametrize(
    ("type_", "text"), [("bigint", "x"), ("date", "tomorrow"), ("boolean", "maybe"), ("integer", "NaN")]
)
def test_a_value_of_another_type_is_refused(type_: str, text: str) -> None:
    with pytest.raises(ModelProblem, match="is no"):
        literal_of(text, type_)


@pytest.mark.parametrize(
    "text",
    [
        "SELECT id FROM s.o",
        "SELECT o.id + 1 AS id FROM s.o AS o",
        "SELECT o.id AS id FROM s.o AS o WHERE o.id = 1 OR o.id = 2",
        "SELECT o.id AS id FROM s.o AS o ORDER BY id LIMIT 1",
        "SELECT o.id AS id FROM s.o AS o UNION SELECT o.id AS id FROM s.o AS o",
        "SELECT DISTINCT o.id AS id FROM s.o AS o",
        "SELECT o.id AS id FROM s.o AS o GROUP BY o.id",
        "no SQL",
    ],
)
def test_select_of_another_form_is_not_read_by_the_builder(text: str) -> None:
    assert read_build(text) is None


def test_alias_of_a_second_dataset_of_one_name_is_numbered() -> None:
    assert alias_of("s.o", ["O", "o_2"]) == "o_3"
