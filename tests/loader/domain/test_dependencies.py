"""Selection and order of loaded datasets."""

from dataclasses import replace
from uuid import NAMESPACE_DNS, uuid5

import pytest
from hypothesis import given
from hypothesis import strategies as st

from loader.contract.refusals import Refusal
from loader.domain.dependencies import (
    LoadStep,
    datasets_selected,
    dependencies,
    load_steps,
    tables_looked_up,
    view_models,
)
from metadata.domain.scope import DATASET, SCHEMA, SELECTION, Scope
from metadata.domain.selection import reached
from metadata.domain.state import ColumnState, DatasetState, ReferenceState


def key(name: str) -> str:
    return str(uuid5(NAMESPACE_DNS, name))


def state(layer: str, name: str, inputs=(), *, parents=(), **more) -> DatasetState:
    references = tuple(ReferenceState(key(f"{name}>{p}"), f"{p}_key", key(p), ()) for p in parents)
    return DatasetState(
        key=key(name),
        schema=layer,
        layer=layer,
        name=name,
        columns=(ColumnState(key(f"{name}.id"), "id", "string", role="business_key"),),
        materialization="view" if layer == "stage" else "table",
        inputs=tuple(key(input_name) for input_name in inputs),
        references=references,
        **more,
    )


def chain(name: str, *, parents=(), **more) -> tuple[DatasetState, ...]:
    return (
        state("raw", f"raw_{name}", [f"source {name}"]),
        state("stage", f"stg_{name}", [f"raw_{name}"]),
        state("rawcore", f"rc_{name}", [f"stg_{name}"], parents=parents, historize=True, history_key=key("h"), **more),
    )


TWO = chain("airport") + chain("route", parents=["rc_airport"])


ALL_DATASETS = Scope()


def plan_loads(states, scope: Scope = ALL_DATASETS) -> tuple[LoadStep, ...]:
    steps, _ = load_steps(states, scope, tags={})
    return steps


def model(name: str, inputs, *, view: bool = False) -> DatasetState:
    made = state("serving", name, inputs, select="SELECT 1")
    return replace(made, materialization="view" if view else "table")


MODELS = (*chain("airport"), model("open", ["rc_airport"], view=True), model("top", ["open"]))


def views(scope: Scope) -> list[str]:
    return [view.name for view in view_models(MODELS, scope, tags={})]


@pytest.mark.parametrize(
    ("scope", "steps", "made"),
    [
        (ALL_DATASETS, ["raw_airport", "rc_airport", "top"], ["open"]),
        (Scope(SELECTION, "serving.open"), [], ["open"]),
        (Scope(SELECTION, "serving.*"), ["top"], ["open"]),
        (Scope(SELECTION, "+serving.open"), ["raw_airport", "rc_airport"], ["open"]),
        (Scope(SELECTION, "rawcore.rc_airport+"), ["rc_airport", "top"], ["open"]),
        (Scope(SELECTION, "serving.top"), ["top"], []),
        (Scope(DATASET, "serving.open"), ["raw_airport", "rc_airport"], ["open"]),
        (Scope(DATASET, "serving.open", target_only=True), [], ["open"]),
        (Scope(SCHEMA, "serving"), ["raw_airport", "rc_airport", "top"], ["open"]),
    ],
)
def test_views_of_models_are_selected_like_tables(scope, steps, made):
    assert (names(plan_loads(MODELS, scope)), views(scope)) == (steps, made)


def names(steps) -> list[str]:
    return [step.dataset.name for step in steps]


def test_raw_tables_precede_their_readers_and_parents_precede_children():
    steps = plan_loads(TWO)
    assert names(steps) == ["raw_airport", "raw_route", "rc_airport", "rc_route"]
    assert steps[3].depends_on == (key("raw_route"), key("rc_airport"))


def test_dataset_scope_includes_its_dependencies():
    assert names(plan_loads(TWO, Scope(DATASET, "rawcore.rc_airport"))) == ["raw_airport", "rc_airport"]
    assert names(plan_loads(TWO, Scope(DATASET, "rawcore.rc_route"))) == names(plan_loads(TWO))


def test_target_only_excludes_dependencies():
    (step,) = plan_loads(TWO, Scope(DATASET, "rawcore.rc_route", target_only=True))
    assert (step.dataset.name, step.depends_on) == ("rc_route", ())


@pytest.mark.parametrize("name", ["rawcore.rc_airport_hist", "stage.stg_airport"])
def test_history_or_stage_name_selects_its_rawcore_table(name):
    (step,) = plan_loads(TWO, Scope(DATASET, name, target_only=True))
    assert step.dataset.name == "rc_airport"


def test_schema_scope_includes_its_datasets_and_their_dependencies():
    assert names(plan_loads(TWO, Scope(SCHEMA, "raw"))) == ["raw_airport", "raw_route"]
    assert names(plan_loads(TWO, Scope(SCHEMA, "rawcore"))) == names(plan_loads(TWO))
    assert names(plan_loads(TWO, Scope(SCHEMA, "stage"))) == names(plan_loads(TWO))


@pytest.mark.parametrize(
    ("scope", "code", "hint"),
    [
        (Scope(SCHEMA, "rawcor"), "UNKNOWN_SCHEMA", "did you mean rawcore"),
        (Scope(DATASET, "rawcore.rc_airprt"), "UNKNOWN_DATASET", "did you mean rawcore.rc_airport"),
        (Scope(DATASET, "rc_airport"), "UNKNOWN_DATASET", "did you mean rawcore.rc_airport?"),
        (Scope(DATASET, "x.y"), "UNKNOWN_DATASET", "known: "),
    ],
)
def test_unknown_name_is_refused_with_similar_names(scope, code, hint):
    with pytest.raises(Refusal) as refused:
        plan_loads(TWO, scope)
    assert refused.value.code == code
    assert hint in refused.value.hint


def test_scope_without_a_dataset_to_load_is_refused():
    lonely = state("stage", "stg_x", ["raw_x"])
    for states, scope in (((), Scope()), ((lonely,), Scope(DATASET, "stage.stg_x"))):
        with pytest.raises(Refusal) as refused:
            plan_loads(states, scope)
        assert refused.value.code == "NOTHING_TO_LOAD"


def test_a_retired_dataset_is_not_loaded():
    retired = chain("airport", active=False)
    assert names(plan_loads(retired)) == ["raw_airport"]
    with pytest.raises(Refusal) as refused:
        plan_loads(retired, Scope(DATASET, "rawcore.rc_airport"))
    assert refused.value.code == "RETIRED"


def test_circular_inputs_are_refused_and_named():
    states = (
        state("rawcore", "rc_a", ["stg_a"]),
        state("stage", "stg_a", ["rc_b"]),
        state("rawcore", "rc_b", ["rc_a"]),
    )
    with pytest.raises(Refusal) as refused:
        plan_loads(states)
    assert refused.value.code == "CIRCULAR_INPUTS"
    assert "rawcore.rc_a" in refused.value.message
    assert "rawcore.rc_b" in refused.value.message


def test_circular_views_are_refused_and_named():
    states = (
        state("rawcore", "rc_a", ["stg_a"]),
        state("stage", "stg_a", ["stg_b"]),
        state("stage", "stg_b", ["stg_a"]),
    )
    with pytest.raises(Refusal) as refused:
        plan_loads(states)
    assert refused.value.message.endswith("stage.stg_a → stage.stg_b → stage.stg_a")


def test_references_may_form_a_circle():
    states = (state("rawcore", "rc_a", parents=["rc_b", "rc_a"]), state("rawcore", "rc_b", parents=["rc_a"]))
    assert len(plan_loads(states)) == 2


@st.composite
def warehouses(draw) -> tuple[DatasetState, ...]:
    """Draw rawcore tables that read raw tables, earlier rawcore tables and views over both."""
    size = draw(st.integers(1, 8))
    made: list[DatasetState] = []
    for i in range(size):
        made.append(state("raw", f"raw_{i}", [f"source {i}"]))
        earlier = [dataset.name for dataset in made]
        read = draw(st.lists(st.sampled_from(earlier), min_size=1, max_size=3, unique=True))
        parents = draw(st.lists(st.integers(0, size - 1), max_size=2, unique=True))
        if draw(st.booleans()):
            made.append(state("stage", f"stg_{i}", read))
            read = [f"stg_{i}"]
        made.append(state("rawcore", f"rc_{i}", read, parents=[f"rc_{p}" for p in parents]))
    return tuple(draw(st.permutations(made)))


@given(warehouses())
def test_load_order_is_topological_and_independent_of_the_order_of_states(states):
    steps = plan_loads(states)
    loaded: set[str] = set()
    for step in steps:
        assert set(step.depends_on) <= loaded
        loaded.add(step.dataset.key)
    assert names(plan_loads(tuple(sorted(states, key=lambda dataset: dataset.key)))) == names(steps)


@given(warehouses(), st.data())
def test_dataset_scope_contains_exactly_its_dependencies(states, data):
    chosen = data.draw(st.sampled_from([dataset for dataset in states if dataset.layer == "rawcore"]))
    steps = plan_loads(states, Scope(DATASET, chosen.qualified_name))
    keys = {step.dataset.key for step in steps}
    assert keys == reached({chosen.key}, dependencies({dataset.key: dataset for dataset in states}))
    assert all(set(step.depends_on) <= keys for step in steps)


# --- rules for unknown parents -----------------------------------------------------------------


def with_reference(child: DatasetState, parent: str, rule: str) -> DatasetState:
    reference = ReferenceState(key(f"{child.name}>{parent}"), f"{parent}_key", key(parent), (), rule)
    return replace(child, references=(reference,))


def family(rule: str) -> tuple[DatasetState, ...]:
    *others, route = TWO
    return (*others, with_reference(route, "rc_airport", rule))


def test_a_parent_with_ghost_rows_waits_for_the_rows_that_refer_to_it():
    steps = {step.dataset.name: step.depends_on for step in plan_loads(family("ghost"))}
    assert steps["rc_airport"] == (key("raw_airport"), key("raw_route"))
    assert steps["rc_route"] == (key("raw_route"), key("rc_airport"))


def test_parent_without_ghost_rows_does_not_wait_for_referring_rows():
    steps = {step.dataset.name: step.depends_on for step in plan_loads(family("null"))}
    assert steps["rc_airport"] == (key("raw_airport"),)


def test_load_of_a_parent_with_ghost_rows_includes_the_raw_table_of_referring_rows():
    steps = plan_loads(family("ghost"), Scope(DATASET, "rawcore.rc_airport"))
    assert names(steps) == ["raw_airport", "raw_route", "rc_airport"]


@pytest.mark.parametrize("rule", ["null", "refuse", "ghost"])
def test_circular_rules_for_unknown_parents_are_refused(rule: str):
    airport, route = chain("airport"), chain("route")
    states = (
        *airport[:2],
        with_reference(airport[2], "rc_route", rule),
        *route[:2],
        with_reference(route[2], "rc_airport", rule),
    )
    with pytest.raises(Refusal) as refused:
        plan_loads(states)
    assert refused.value.code == "CIRCULAR_REFERENCES"


def test_reference_with_a_rule_takes_precedence_in_a_circle():
    airport, route = chain("airport", parents=["rc_route"]), chain("route")
    states = (*airport, *route[:2], with_reference(route[2], "rc_airport", "refuse"))
    assert names(plan_loads(states))[-2:] == ["rc_airport", "rc_route"]


@pytest.mark.parametrize(
    ("rule", "name", "tables"),
    [
        ("keep", "rc_route", set()),
        ("null", "rc_route", {"rc_airport"}),
        ("null", "rc_airport", set()),
        ("ghost", "rc_airport", {"rc_route", "raw_route"}),
    ],
)
def test_each_rule_for_unknown_parents_looks_up_its_tables(rule: str, name: str, tables: set[str]):
    by_key = {dataset.key: dataset for dataset in family(rule)}
    assert tables_looked_up(by_key[key(name)], by_key) == {key(table) for table in tables}


def test_an_unknown_word_of_a_selection_is_refused():
    with pytest.raises(Refusal, match=r"no dataset is selected by rawcore.rc_airprt") as refused:
        plan_loads(TWO, Scope(SELECTION, "rawcore.rc_airprt"))
    assert refused.value.code == "NOTHING_SELECTED"
    assert refused.value.hint.startswith("did you mean rawcore.rc_airport or")


@pytest.mark.parametrize(
    ("word", "selected"),
    [
        ("rawcore.rc_airport", ["rawcore.rc_airport"]),
        ("raw.*", ["raw.raw_airport", "raw.raw_route"]),
        ("raw.raw_airport+", ["raw.raw_airport", "rawcore.rc_airport", "stage.stg_airport"]),
        ("tag:flights", ["rawcore.rc_route"]),
    ],
)
def test_a_name_or_a_word_selects_active_datasets(word, selected):
    by_key = {state.key: state for state in (*TWO, replace(chain("gone")[0], active=False))}
    states = datasets_selected(by_key, word, {key("rc_route"): ["flights"]})
    assert [state.qualified_name for state in states] == selected


def test_a_word_without_a_dataset_is_refused():
    with pytest.raises(Refusal, match="no dataset is selected by layer:gold"):
        datasets_selected({state.key: state for state in TWO}, "layer:gold", {})
