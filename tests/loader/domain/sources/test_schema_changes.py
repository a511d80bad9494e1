"""Comparison of a source's schema with its contract, without any decision."""

from hypothesis import given
from hypothesis import strategies as st

from loader.domain.sources.schema_changes import (
    GONE,
    KINDS,
    NEW,
    RENAMED,
    RETYPED,
    ContractColumn,
    ObservedColumn,
    SchemaChange,
    compare_schema,
    fingerprint,
    remaining,
    rename_score,
    split_rename,
)
from metadata.domain.types import parse


def contract_column(name: str, type_: str = "string", *, active: bool = True) -> ContractColumn:
    return ContractColumn(name, parse(type_), active)


def observed_column(name: str, type_: str = "", *, declared: bool = False) -> ObservedColumn:
    return ObservedColumn(name, parse(type_) if type_ else None, declared)


def changes_of(contract: list, observed: list, **how: object) -> list[tuple[str, str]]:
    return [(change.kind, change.name) for change in compare_schema(contract, observed, **how)]


def test_columns_in_another_order_are_no_change():
    assert changes_of([contract_column("a"), contract_column("b")], [observed_column("b"), observed_column("a")]) == []


def test_columns_with_dissimilar_names_are_gone_and_new_instead_of_renamed():
    assert changes_of(
        [contract_column("id"), contract_column("amount", "integer")],
        [observed_column("id"), observed_column("vip", "boolean")],
    ) == [
        ("gone", "amount"),
        ("new", "vip"),
    ]


def test_a_retired_column_that_is_delivered_returns():
    assert changes_of([contract_column("a", active=False)], [observed_column("a")]) == [("returning", "a")]


def test_name_in_another_case_is_a_recased_column():
    (change,) = compare_schema([contract_column("Amount", "integer")], [observed_column("amount")])
    assert (change.kind, change.former, change.name) == ("recased", "Amount", "amount")


def test_types_are_wider_narrower_or_incompatible():
    pairs = {"integer": "bigint", "bigint": "integer", "boolean": "date", "decimal(10,2)": "float"}
    changes = [
        compare_schema([contract_column("a", before)], [observed_column("a", after)])[0]
        for before, after in pairs.items()
    ]
    assert [change.relation for change in changes] == ["wider", "narrower", "incompatible", "incompatible"]


def test_types_that_the_warehouse_stores_alike_are_no_change():
    assert (
        changes_of(
            [contract_column("a", "string"), contract_column("b", "uuid")],
            [observed_column("a", "json"), observed_column("b", "string")],
        )
        == []
    )


def test_unknown_observed_type_is_no_change():
    assert changes_of([contract_column("a", "integer")], [observed_column("a")]) == []


def test_observed_type_without_limits_does_not_contradict_the_contract():
    assert observed_column("a", "string").beside(parse("string(10)")).type is None
    assert observed_column("a", "decimal(38,10)").beside(parse("decimal(18,2)")).type is None
    assert observed_column("a", "string").beside(parse("integer")).type == parse("string")
    assert observed_column("a", "decimal(20,2)").beside(parse("decimal(18,2)")).type == parse("decimal(20,2)")


def test_type_that_fits_the_contract_is_listed_but_not_in_the_fingerprint():
    changes = compare_schema([contract_column("a", "bigint")], [observed_column("a", "integer", declared=True)])
    assert [change.is_held for change in changes] == [True]
    assert fingerprint(changes) == fingerprint(())


def test_a_similar_name_of_the_same_type_is_probably_a_rename():
    (change,) = compare_schema([contract_column("cust_nm")], [observed_column("customerName", "string")])
    assert (change.kind, change.former, change.name) == ("renamed", "cust_nm", "customerName")
    assert 0.5 <= change.score <= 1


def test_incompatible_types_are_no_rename():
    assert changes_of([contract_column("amount", "integer")], [observed_column("amount_eur", "date")]) == [
        ("gone", "amount"),
        ("new", "amount_eur"),
    ]


def test_rename_matches_the_most_similar_of_several_names():
    contract = [contract_column("order_date", "date"), contract_column("ship_date", "date")]
    changes = compare_schema(contract, [observed_column("date_ordered", "date"), observed_column("ship_dt", "date")])
    assert {change.former: change.name for change in changes} == {"order_date": "date_ordered", "ship_date": "ship_dt"}


def test_rename_score_recognizes_words_in_camel_and_snake_case():
    assert rename_score(contract_column("orderNo"), observed_column("order_no", "string")) > rename_score(
        contract_column("orderNo"), observed_column("note")
    )


def test_ignored_columns_are_not_new():
    assert changes_of([], [observed_column("a"), observed_column("b")], ignored={"a"}) == [("new", "b")]


def test_column_missing_from_an_incomplete_sample_is_not_gone():
    assert changes_of([contract_column("a")], [], complete=False) == []


def test_path_into_a_delivered_column_is_not_gone():
    assert (
        changes_of([contract_column("place.city"), contract_column("place.zip")], [observed_column("place", "json")])
        == []
    )


def test_inferred_types_do_not_change_the_fingerprint_and_declared_ones_do():
    def of(type_: str, *, declared: bool) -> str:
        return fingerprint(compare_schema([], [observed_column("a", type_, declared=declared)]))

    assert of("integer", declared=False) == of("string", declared=False)
    assert of("integer", declared=True) != of("string", declared=True)


def test_changes_already_made_by_a_user_do_not_remain():
    contract = [
        contract_column("id"),
        contract_column("cust_nm"),
        contract_column("amount", "integer"),
        contract_column("old"),
    ]
    observed = [
        observed_column("id"),
        observed_column("customer_nm", "string"),
        observed_column("amount", "bigint"),
        observed_column("vip", "boolean"),
    ]
    changes = compare_schema(contract, observed)
    assert remaining(changes, contract) == changes
    edited = [
        contract_column("id"),
        contract_column("customer_nm"),
        contract_column("amount", "bigint"),
        contract_column("old", active=False),
        contract_column("vip"),
    ]
    assert remaining(changes, edited) == ()


def test_refused_rename_splits_into_a_gone_and_a_new_column():
    (change,) = compare_schema([contract_column("cust_nm")], [observed_column("customer_name", "string")])
    assert [(part.kind, part.name) for part in split_rename(change)] == [(GONE, "cust_nm"), (NEW, "customer_name")]


# --- properties ----------------------------------------------------------------------------------

TYPES = st.sampled_from(["string", "integer", "bigint", "float", "decimal(10,2)", "boolean", "date", "timestamp"])
NAMES = st.text("abcXY_1", min_size=1, max_size=6)


def distinct(columns: list) -> list:
    return list({column.name.lower(): column for column in columns}.values())


CONTRACTS = st.lists(st.builds(contract_column, NAMES, TYPES, active=st.booleans()), max_size=6).map(distinct)
SCHEMAS = st.lists(st.builds(observed_column, NAMES, TYPES, declared=st.booleans()), max_size=6).map(distinct)


@given(CONTRACTS, SCHEMAS, st.randoms(use_true_random=False))
def test_comparison_does_not_depend_on_the_order_of_columns(contract: list, observed: list, random):
    changes = compare_schema(contract, observed)
    random.shuffle(contract)
    random.shuffle(observed)
    assert compare_schema(contract, observed) == changes


@given(CONTRACTS)
def test_a_schema_like_the_contract_has_no_change(contract: list):
    assert compare_schema(contract, [observed_column(c.name, str(c.type)) for c in contract if c.active]) == ()


@given(CONTRACTS, SCHEMAS)
def test_every_column_is_in_at_most_one_change(contract: list, observed: list):
    changes = compare_schema(contract, observed)
    formers = [change.former or change.name for change in changes if change.kind not in (NEW,)]
    names = [change.name for change in changes if change.kind != GONE]
    assert len(formers) == len(set(formers))
    assert len(names) == len(set(names))
    assert {change.kind for change in changes} <= set(KINDS)


@given(CONTRACTS, SCHEMAS)
def test_every_column_that_differs_is_in_a_change(contract: list, observed: list):
    changes = compare_schema(contract, observed)
    reported_names = {change.former or change.name for change in changes} | {change.name for change in changes}
    active = {column.name for column in contract if column.active}
    delivered = {column.name for column in observed}
    assert active ^ delivered <= reported_names


@given(CONTRACTS, st.lists(st.builds(observed_column, NAMES, TYPES, declared=st.booleans()), max_size=6))
def test_changes_other_than_clashes_never_duplicate_a_name(contract: list, observed: list):
    changes = compare_schema(contract, observed)
    added = [change.name for change in changes if change.kind in (NEW, RENAMED, "recased")]
    former = {change.former for change in changes if change.kind in (RENAMED, "recased")}
    unchanged = [column.name for column in contract if column.name not in former]
    gone = {change.name for change in changes if change.kind == GONE}
    names = [name.lower() for name in (*added, *(name for name in unchanged if name not in gone))]
    assert len(names) == len(set(names))


@given(CONTRACTS, SCHEMAS)
def test_accepting_every_change_leaves_only_clashes(contract: list, observed: list):
    columns = {column.name: column for column in contract}
    for _ in range(2):  # a column that returns may have another type than when it was retired
        for change in compare_schema(columns.values(), observed):
            _accept(change, columns)
    assert {change.kind for change in compare_schema(columns.values(), observed)} <= {"clashing"}


def _accept(change: SchemaChange, columns: dict[str, ContractColumn]) -> None:
    match change.kind:
        case "gone":
            columns[change.name] = contract_column(change.name, change.before, active=False)
        case "renamed" | "recased":
            columns.pop(change.former)
            columns[change.name] = contract_column(change.name, change.after or change.before)
        case "clashing":
            pass
        case _:
            columns[change.name] = contract_column(change.name, change.after)


@given(NAMES, TYPES, NAMES, TYPES, st.booleans())
def test_a_score_is_from_0_to_1_and_a_rename_needs_compatible_types(
    name: str, type_: str, other: str, other_type: str, only: bool
):
    former, now = contract_column(name, type_), observed_column(other, other_type)
    score = rename_score(former, now, only_pair=only)
    assert 0 <= score <= 1
    (retyped,) = compare_schema([contract_column("a", type_)], [observed_column("a", other_type)]) or (None,)
    assert (score == 0) == (retyped is not None and retyped.relation == "incompatible") or score > 0


@given(CONTRACTS, SCHEMAS)
def test_changes_survive_a_json_round_trip(contract: list, observed: list):
    for change in compare_schema(contract, observed):
        assert SchemaChange.from_json(change.as_json()) == change
        assert change.kind in (RENAMED, RETYPED) or change.score is None
