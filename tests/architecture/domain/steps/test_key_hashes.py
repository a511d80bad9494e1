"""Hash keys, which a rebuild recomputes if it changes the text of a key value (rule 17)."""

import json
from dataclasses import replace

from architecture.domain.steps.report_steps import plan_steps
from architecture.domain.steps.statements import statement_text
from architecture.domain.steps.step import REBUILD_TABLE, Step
from architecture.domain.steps.step_json import as_row, of_row
from architecture.domain.tables import tables_of
from loader.contract.manifest.codec import from_json, to_json
from loader.contract.manifest.executions import ExecuteManifest
from metadata.domain.state import ColumnState, DatasetState, ReferenceState
from tests.architecture.tables import key, observed

DATED = {"input": "effective", "time": "at"}


def orders(policy: dict = DATED, **types: str) -> DatasetState:
    """Return orders with their day and number as key, a customer and a timestamp."""
    types = {"day": "date", "number": "integer", "customer": "date", "at": "timestamp"} | types
    columns = tuple(
        ColumnState(key("orders", name), name, type_, role="business_key" if name in ("day", "number") else "attribute")
        for name, type_ in types.items()
    )
    reference = ReferenceState(
        key("reference"), "customer_key", key("customers"), ((key("orders", "customer"), key("customers", "born")),)
    )
    return DatasetState(
        key("orders"),
        "rawcore",
        "rawcore",
        "orders",
        columns,
        historize=True,
        history_key=key("orders_hist"),
        history_policy=policy,
        references=(reference,),
    )


def rebuilds(before: DatasetState, after: DatasetState) -> dict[str, Step]:
    """Return the rebuild step of each table by table name."""
    steps = plan_steps(tables_of(after), observed(*tables_of(before)))
    return {step.table.name: step for step in steps if step.op == REBUILD_TABLE}


def anew(step: Step) -> list[str]:
    return [rehashed.name for rehashed in step.rehashed]


def test_rebuild_of_a_key_column_rehashes_the_key_in_every_table():
    steps = rebuilds(orders(), orders(day="string"))
    assert {name: anew(step) for name, step in steps.items()} == {
        "orders": ["orders_key"],
        "orders_hist": ["orders_key", "orders_hist_key"],
        "orders_hist_events": ["orders_key"],
    }
    (entity, history) = steps["orders_hist"].rehashed
    assert entity.parts == ((key("orders", "day"), "day"), (key("orders", "number"), "number"))
    assert [name for _, name in history.parts] == ["orders_key", "version_started_at"]


def test_rebuild_of_a_referring_column_rehashes_the_foreign_key():
    steps = rebuilds(orders(), orders(customer="string"))
    (rehashed,) = steps["orders_hist"].rehashed
    assert (rehashed.name, rehashed.absent) == ("customer_key", True)
    assert rehashed.parts == ((key("customers", "born"), "customer"),)
    assert steps["orders_hist_events"].rehashed == ()


def test_rebuild_of_another_column_rehashes_no_key():
    before = replace(orders(note="date"), history_policy={})
    assert [anew(step) for step in rebuilds(before, replace(orders(note="string"), history_policy={})).values()] == [
        [],
        [],
    ]


def test_rehash_reads_key_parts_by_their_names_before_the_rename():
    after = orders(day="string")
    renamed = replace(after, columns=(replace(after.columns[0], name="date"), *after.columns[1:]))
    step = rebuilds(orders(), renamed)["orders"]
    assert [name for _, name in step.rehashed[0].parts] == ["day", "number"]


def test_statement_of_a_rebuild_names_the_rehashed_key():
    step = rebuilds(orders(), orders(day="string"))["orders"]
    assert "-- `orders_key` is hashed anew: sha256(`day`, `number`)\n" in statement_text(step, "/w")


def test_step_with_rehashed_keys_is_stored_and_sent_unchanged():
    step = rebuilds(orders(), orders(day="string"))["orders_hist"]
    assert of_row(json.loads(json.dumps(as_row(step)))) == step
    assert from_json(ExecuteManifest, json.loads(json.dumps(to_json(ExecuteManifest("1", (step,)))))).steps == (step,)


def test_stored_step_without_rehashed_keys_is_readable():
    spec = tables_of(orders())[0]
    step = rebuilds(orders(note="date"), orders(note="string"))["orders"]
    row = as_row(step)
    del row["rehashed"]
    assert of_row(row) == step
    document = as_row(Step("create_table", spec))
    for column in document["table"]["columns"]:
        del column["hash_of"]
    assert of_row(document).table.columns[0].hash_of == ()
