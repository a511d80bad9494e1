"""Properties of step plans between arbitrary columns."""

from hypothesis import given, settings
from hypothesis import strategies as st

from architecture.domain.steps.rename_order import order_moves
from architecture.domain.steps.report_steps import plan_steps
from architecture.domain.steps.step import ADD_COLUMN, becomes, shape_of, steps_done, stored
from tests.architecture.states import inverses
from tests.architecture.tables import after, column, names_of, observed, report_on, table

NAMES = st.sampled_from(["a", "A", "b", "B", "c", "é", "É", "select", "we`ird", "x y", "__moving_1"])
TYPES = st.sampled_from(["string", "string(5)", "string(9)", "integer", "bigint", "decimal(10,2)", "date", "timestamp"])


@st.composite
def columns_of_tables(draw):
    """Draw columns before and after: stable keys, each with a name that is unique regardless of case, and a type."""

    def columns(keys):
        unique = draw(st.lists(NAMES, unique_by=str.lower, min_size=1, max_size=6))
        chosen = draw(st.permutations(keys))[: len(unique)]
        return tuple(column(name, draw(TYPES), of=str(which)) for name, which in zip(unique, chosen, strict=False))

    keys = list(range(6))
    return columns(keys), columns(keys)


@settings(max_examples=300, deadline=None)
@given(columns_of_tables(), st.booleans())
def test_steps_lead_from_any_columns_to_any_others_without_duplicate_names(pair, tied):
    before, wanted = (table("t", *columns) for columns in pair)
    start = observed(before, tied=tied)
    steps = plan_steps([wanted], start, report_on(before, wanted))
    warehouse = after(steps, start)
    types = {c.name: c.type for c in warehouse.tables[wanted.key].columns}
    assert types == {c.name: stored(c.type) for c in wanted.columns}
    renamed = {c.key for c in before.columns} & {c.key for c in wanted.columns}
    if tied:
        assert names_of(warehouse, wanted) == {c.key: c.name for c in wanted.columns}
    assert not [step for step in steps if step.op == ADD_COLUMN and step.column.key in renamed]


@settings(max_examples=150, deadline=None)
@given(columns_of_tables(), st.data())
def test_remaining_steps_complete_the_change_after_any_interruption(pair, data):
    before, wanted = (table("t", *columns) for columns in pair)
    report, start = report_on(before, wanted), observed(before)
    steps = plan_steps([wanted], start, report)
    stopped = data.draw(st.integers(0, len(steps)))
    warehouse = after(steps[:stopped], start)
    assert steps_done(steps, warehouse.tables[wanted.key]) == stopped if steps else True
    remaining = plan_steps([wanted], warehouse.tables, report)
    end = after(remaining, warehouse.tables).tables[wanted.key]
    assert {(c.name, c.key) for c in end.columns} == {(c.name, c.key) for c in wanted.columns}


@settings(max_examples=150, deadline=None)
@given(columns_of_tables())
def test_inverse_steps_in_reverse_order_restore_the_table(pair):
    before, wanted = (table("t", *columns) for columns in pair)
    start = observed(before)
    steps = plan_steps([wanted], start, report_on(before, wanted))
    back = inverses((step, 3) for step in steps)
    shape = shape_of(after(steps, start).tables[before.key])
    for step in back:
        assert step.assumes.matches(shape)
        shape = becomes(step)
    assert shape is None or shape.matches(shape_of(start[before.key]))


@settings(max_examples=200, deadline=None)
@given(st.lists(NAMES, unique_by=str.lower, min_size=1, max_size=7), st.randoms(use_true_random=False))
def test_ordered_renames_never_use_a_name_twice(names, random):
    targets = [random.choice([n, n.upper(), n.lower()]) for n in random.sample(names, len(names))]
    in_use = {name.lower(): name for name in names}
    for old, new in order_moves(list(zip(names, targets, strict=True)), names, lambda name: f"aside of {name}"):
        assert in_use.pop(old.lower()) == old
        assert new.lower() not in in_use
        assert new.lower() != old.lower()
        in_use[new.lower()] = new
    assert sorted(in_use.values()) == sorted(targets)
