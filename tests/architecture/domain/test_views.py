"""Statements of described views that a change creates or changes."""

from dataclasses import replace
from uuid import NAMESPACE_DNS, uuid5

import pytest

from architecture.domain.views import changed_views, query_of_view
from elevata.core.errors import MetadataError
from metadata.domain.state import ColumnState, DatasetState


def key(name: str) -> str:
    return str(uuid5(NAMESPACE_DNS, name))


def column(dataset: str, name: str, reads: str = "", **fields) -> ColumnState:
    return ColumnState(key(f"{dataset}.{name}"), name, "string", inputs=(key(reads),) if reads else (), **fields)


def dataset(layer: str, name: str, *columns: ColumnState, reads: str, view: bool = False) -> DatasetState:
    kind = "view" if view else "table"
    return DatasetState(key(name), layer, layer, name, columns, materialization=kind, inputs=(key(reads),))


RAW = dataset("raw", "raw_a", column("raw_a", "id"), reads="source")
STAGE = dataset("stage", "stg_a", column("stg_a", "id", "raw_a.id"), reads="raw_a", view=True)
OUTER = dataset("serving", "outer", column("outer", "id", "stg_a.id"), reads="stg_a", view=True)
SELECT_STAGE = "CREATE VIEW `stage`.`stg_a` AS\nSELECT\n  CAST(`id` AS STRING) AS `id`\nFROM `raw`.`raw_a`"


def test_a_view_that_is_created_has_its_select():
    assert changed_views([RAW], [RAW, STAGE]) == {STAGE.key: SELECT_STAGE}


def test_view_over_a_raw_table_with_kept_deliveries_reads_the_newest():
    raw = replace(RAW, load_policy={"keep": "all"})
    newest = "SELECT max_by(`load_run_id`, `loaded_at`) FROM `raw`.`raw_a`"
    text = changed_views([raw], [raw, STAGE])[STAGE.key]
    assert text.endswith(f"FROM (SELECT * FROM `raw`.`raw_a` WHERE `load_run_id` = ({newest}))")


def test_model_over_a_raw_table_with_kept_deliveries_reads_the_newest():
    raw = replace(RAW, load_policy={"keep": "all"})
    model = replace(OUTER, select="SELECT id FROM raw.raw_a", inputs=(RAW.key,))
    assert "max_by(`load_run_id`, `loaded_at`)" in changed_views([raw], [raw, model])[model.key].replace("\n", "")


def test_unchanged_views_are_not_listed():
    assert changed_views([RAW, STAGE, OUTER], [RAW, STAGE, OUTER]) == {}


def test_a_view_changes_with_the_view_or_table_beneath_it():
    renamed = replace(RAW, columns=(replace(RAW.columns[0], name="nr"),))
    assert list(changed_views([RAW, STAGE, OUTER], [renamed, STAGE, OUTER])) == [OUTER.key, STAGE.key]
    filtered = replace(STAGE, filter="id IS NOT NULL")
    changed = changed_views([RAW, STAGE, OUTER], [RAW, filtered, OUTER])
    assert [text.partition("WHERE ")[2] for text in changed.values()] == ["(id IS NOT NULL)"] * 2


def test_view_with_an_unchanged_statement_is_not_listed():
    described = replace(RAW, columns=(*RAW.columns, column("raw_a", "more")))
    assert changed_views([RAW, STAGE], [described, STAGE]) == {}


def test_a_retired_view_and_one_without_a_statement_are_not_listed():
    unknown = replace(STAGE, columns=(column("stg_a", "id", expression="nothing + 1"),))
    assert changed_views([RAW], [RAW, replace(STAGE, active=False)]) == {}
    assert changed_views([RAW], [RAW, unknown]) == {}
    assert changed_views([], [STAGE]) == {}


def doubling(layers: int) -> list[DatasetState]:
    """Return a table and views on top of each other, each of which reads the one beneath it twice."""
    states = [RAW]
    for layer in range(layers):
        below = states[-1]
        text = f"SELECT a.id FROM {below.qualified_name} a JOIN {below.qualified_name} b ON a.id = b.id"
        view = dataset("serving", f"v{layer}", column(f"v{layer}", "id"), reads=below.name, view=True)
        states.append(replace(view, select=text))
    return states


def test_a_view_whose_query_has_grown_too_long_is_refused():
    states = doubling(16)
    with pytest.raises(MetadataError, match="make one of these views a table") as refused:
        query_of_view(states[-1], {state.key: state for state in states})
    assert refused.value.code == "TOO_LARGE"


def test_a_view_that_models_share_is_inlined_once_per_query():
    bottom, *views = doubling(2)
    models = [replace(views[1], key=key(name), name=name) for name in ("left", "right")]
    text = "SELECT a.id FROM serving.left a JOIN serving.right b ON a.id = b.id"
    top = replace(views[1], key=key("top"), name="top", select=text, inputs=tuple(model.key for model in models))
    calls = []
    states = {state.key: state for state in (bottom, views[0], *models, top)}
    query_of_view(top, states, lambda table: calls.append(table) or "t")
    assert len(calls) == 1
