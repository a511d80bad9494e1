"""Tests of renames in a SELECT: the meaning is the same, and all other text is unchanged."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from metadata.domain.models import ModelProblem, ReadColumn, describe_select, rename_dataset_in_select, rename_in_select
from metadata.domain.models.renames import renamed_column

DATASETS = {
    "s.o": [
        ReadColumn("id", "bigint", False),
        ReadColumn("amount", "decimal(10,2)", True),
        ReadColumn("x", "string", True),
    ],
    "s.c": [ReadColumn("id", "bigint", False), ReadColumn("amount", "string", True)],
}
SOURCES = ("s.o", "s.o AS o", "(SELECT * FROM s.o) AS o", "(SELECT amount, id, x FROM s.o) AS o")
ITEMS = (
    "amount",
    "o.amount AS total",
    "amount + 1 AS more",
    "o.id",
    "upper(x) AS amount_text",
    "CASE WHEN o.amount > 1 THEN id END AS big",
    "sum(o.amount) OVER (PARTITION BY id) AS s",
    "(SELECT max(c.amount) FROM s.c WHERE c.id = o.id) AS other",
)
ENDS = ("", " WHERE o.amount > 3", " WHERE x = 'amount' -- amount", " ORDER BY amount")


@st.composite
def selects(draw: st.DrawFn) -> str:
    items = draw(st.lists(st.sampled_from(ITEMS), min_size=1, max_size=4, unique=True))
    text = f"SELECT {', '.join(items)}\nFROM {draw(st.sampled_from(SOURCES))}{draw(st.sampled_from(ENDS))}"
    if draw(st.booleans()):
        text = f"WITH q AS ({text}\n) SELECT * FROM q"
    return text


NAMES = st.sampled_from(("net", "net amount", "Amount", "a`b", "select", "größe"))


@given(text=selects(), new=NAMES)
def test_renamed_column_keeps_the_meaning_of_the_model(text: str, new: str) -> None:
    renamed = rename_in_select(text, "s.o", "amount", new, DATASETS)
    before = describe_select(text, DATASETS).columns
    after = describe_select(renamed, renamed_column(DATASETS, "s.o", "amount", new)).columns
    assert [(c.name, c.type, c.nullable, c.passes) for c in after] == [
        (c.name, c.type, c.nullable, c.passes) for c in before
    ]
    moved = [
        tuple((owner, new if (owner, name) == ("s.o", "amount") else name) for owner, name in column.inputs)
        for column in before
    ]
    assert [column.inputs for column in after] == moved


@given(text=selects())
def test_rename_of_an_unread_column_keeps_the_select(text: str) -> None:
    assert rename_in_select(text, "s.c", "nothing", "more", DATASETS) == text


@given(text=selects(), new=st.sampled_from(("t.o", "s.orders", "T.Other")))
def test_renamed_dataset_keeps_the_meaning_of_the_model(text: str, new: str) -> None:
    renamed = rename_dataset_in_select(text, "s.o", new)
    datasets = {new: DATASETS["s.o"], "s.c": DATASETS["s.c"]}
    before, after = describe_select(text, DATASETS), describe_select(renamed, datasets)
    assert [(c.name, c.type) for c in after.columns] == [(c.name, c.type) for c in before.columns]
    assert [name for name in after.reads if name != new] == [name for name in before.reads if name != "s.o"]


def test_rename_keeps_a_star_select() -> None:
    text = "SELECT * FROM s.o"
    assert rename_in_select(text, "s.o", "amount", "net", DATASETS) == text


def test_a_rename_that_using_cannot_follow_is_refused() -> None:
    text = "SELECT o.x FROM s.o JOIN s.c USING (id)"
    with pytest.raises(ModelProblem, match="line 1, column 37: USING \\(id\\) cannot follow"):
        rename_in_select(text, "s.o", "id", "number", DATASETS)


def test_a_rename_that_hides_another_column_is_refused() -> None:
    text = "SELECT net FROM (SELECT o.amount AS a, net FROM s.o JOIN (SELECT 1 AS net) n ON true)"
    with pytest.raises(ModelProblem, match="cannot follow the rename of amount to net"):
        rename_in_select(text, "s.o", "amount", "net", DATASETS)
