"""Histories and current rows of generated batches: rendered SQL against the reference."""

import os
from itertools import count

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from loader.contract.refusals import Refusal
from loader.dialects.catalog import DIALECTS
from loader.domain.reference import ReferenceEngine
from loader.domain.reference.case_comparison import Comparison
from loader.domain.reference.table import Header
from loader.services.sql_replay import SqlEngine
from tests.loader.dialects.engines import ENGINES, connection_to
from tests.loader.reference.test_properties import COLUMNS, INPUTS, Source, batch

NUMBERS = count()
EXAMPLES = 150 if os.environ.get("ELEVATA_EXAMPLES") == "night" else 12
# The change of a float to text is left out, since it has no statement.
STEPS = tuple(step for step in Source.STEPS if step != "widen")


def refusal_of(engine, delivery) -> str:
    try:
        engine.apply(delivery)
    except Refusal as refusal:
        return refusal.code
    return ""


@pytest.mark.parametrize("engine", ENGINES)
@pytest.mark.parametrize("name", ["snapshot", "delta"])
@pytest.mark.takes(seconds=20)
@settings(max_examples=EXAMPLES)
@given(data=st.data())
def test_rendered_loads_equal_the_reference_for_generated_batches(engine, name, data):
    policy_of, row_of, time_type = INPUTS[name]
    policy = data.draw(policy_of) | data.draw(st.sampled_from([{}, {"open_end": "9999-12-31"}]))
    policy |= data.draw(st.sampled_from([{}, {"profile": "dbt"}, {"profile": "scd2"}, {"profile": "fivetran"}]))
    columns = COLUMNS | {"t": time_type}
    described = {"id": f"generated-{next(NUMBERS)}", "keys": ["id"], "columns": columns, "policy": policy}
    reference = ReferenceEngine(described)
    header = Header.from_dict(described)
    rendered = SqlEngine(DIALECTS[engine], connection_to(engine), header)
    source = Source(columns)
    contents = st.tuples(st.lists(row_of, max_size=6), st.sampled_from(STEPS))
    for n, (records, step) in enumerate(data.draw(st.lists(contents, max_size=5))):
        after, content = source.next(step, records)
        allowed = {"allow_empty": data.draw(st.booleans())}
        delivery = batch(data.draw(st.sampled_from([3 * n, 3 * n - 4, 3 * n])), content | allowed, run_id=f"run-{n}")
        expected = refusal_of(reference, delivery)
        assert refusal_of(rendered, delivery) == expected
        if expected:
            continue
        source = after
        for repeated in ({}, {"rows": []}):
            rendered.apply(delivery | repeated)
            types = reference.table.columns.types
            comparison = Comparison(types, reference.table.policy)
            wanted = list(reference.rows())
            assert comparison.differences(wanted, rendered.rows()) == []
            current = [{name: row.get(name) for name in types} for row in reference.current()]
            assert comparison.differences(current, rendered.current()) == []


@pytest.mark.parametrize("engine", ENGINES)
def test_row_whose_untracked_columns_changed_keeps_a_column_that_is_not_delivered(engine):
    columns = {"id": "integer", "a": "string", "b": "float", "t": "integer"}
    policy = {"input": "snapshot", "track": ["a"]}
    header = Header.from_dict({"id": f"kept-{engine}", "keys": ["id"], "columns": columns, "policy": policy})
    rendered = SqlEngine(DIALECTS[engine], connection_to(engine), header)
    row = {"id": 1, "a": "x", "b": 0.5, "t": 1}
    rendered.apply(batch(0, {"columns": columns, "rows": [row]}, run_id="run-0"))
    fewer = {name: type_ for name, type_ in columns.items() if name != "b"}
    rendered.apply(batch(1, {"columns": fewer, "rows": [row | {"t": 2}]}, run_id="run-1"))
    assert list(rendered.current()) == [row | {"t": 2}]
