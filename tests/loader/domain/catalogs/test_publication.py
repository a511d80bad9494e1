"""Comparison of names that should be published with the entries of a shared catalog."""

from dataclasses import replace

import pytest

from loader.domain.catalogs.catalog import TABLE, VIEW, catalog_of
from loader.domain.catalogs.publication import (
    EXTRA,
    FOREIGN,
    FUNCTION,
    MISSING,
    OUTDATED,
    Finding,
    Held,
    compare,
    concerned,
    mark_of,
    names_of,
    narrowed,
)
from loader.domain.manifest.publication import PublishedName
from tests.architecture.domain.test_history_layout import dataset as historized
from tests.loader.domain.historization.test_stage import RAW, STAGE

WAREHOUSE = "file:/w"
MARK = mark_of("/w")
A = PublishedName("rawcore.rc_a", TABLE, "a", key="a")
CURRENT = PublishedName("rawcore.rc_a_current", VIEW, "a", statement="…", digest="1", reads=(("rawcore.rc_a", "a"),))
AS_OF = PublishedName("rawcore.rc_a_as_of", FUNCTION, "a", statement="…", digest="2", reads=(("rawcore.rc_a", "a"),))
HELD = (
    Held("rawcore.rc_a", TABLE, "file:/w/a"),
    Held("rawcore.rc_a_current", VIEW, mark=MARK, digest="1"),
    Held("rawcore.rc_a_as_of", FUNCTION, mark=MARK, digest="2"),
)


def problems(*held: Held, wanted=(A, CURRENT, AS_OF), whole: bool = True, shared: bool = True) -> list[tuple[str, str]]:
    locations = {name.key: f"file:/w/{name.key}" for name in wanted if name.key}
    found = compare(wanted, held, locations=locations, warehouse=WAREHOUSE, mark=MARK, whole=whole, shared=shared)
    return [(finding.name, finding.problem) for finding in found]


def names(*states) -> list[PublishedName]:
    return list(names_of(catalog_of(states, warehouse="/w"), states, warehouse="/w"))


def test_a_catalog_that_holds_every_name_differs_in_nothing():
    assert problems(*HELD) == []


def test_an_empty_catalog_lacks_every_name():
    assert problems() == [(name.name, MISSING) for name in (A, CURRENT, AS_OF)]


@pytest.mark.parametrize(
    "held",
    [
        Held("rawcore.rc_a", TABLE, "file:/elsewhere/a"),
        Held("rawcore.rc_a", TABLE, "file:/warehouse_of_others/a"),
        Held("rawcore.rc_a", TABLE),
        Held("rawcore.rc_a", VIEW, mark=mark_of("file:/other"), digest="1"),
    ],
)
def test_a_name_of_something_else_is_foreign(held):
    assert problems(held, wanted=(A,)) == [("rawcore.rc_a", FOREIGN)]


def test_nothing_is_foreign_in_a_catalog_that_is_not_shared():
    held = (Held("rawcore.rc_a", TABLE, "file:/elsewhere/a"), Held("rawcore.rc_b", VIEW, mark="of another"))
    assert problems(*held, wanted=(A,), shared=False) == [("rawcore.rc_b", EXTRA), ("rawcore.rc_a", OUTDATED)]


def test_datasets_concern_the_views_that_read_them_and_what_feeds_these():
    other = replace(RAW, key=RAW.key.replace(RAW.key[0], "f"), name="raw_other")
    assert concerned([RAW, STAGE, other], {RAW.key}) == (RAW, STAGE)
    assert concerned([RAW, STAGE, other], {STAGE.key}) == (RAW, STAGE)
    assert concerned([RAW, STAGE, other], {other.key, "unknown"}) == (other,)


def test_a_prefix_precedes_the_schemas_of_names_and_of_the_tables_that_their_statements_read():
    states = [historized(views=["current", "as_of"]), RAW, STAGE]
    plain = names(*states)
    prefixed = names_of(catalog_of(states, warehouse="/w"), states, warehouse="/w", prefix="test_")
    assert [name.name for name in prefixed] == [f"test_{name.name}" for name in plain]
    stage = next(name for name in prefixed if name.name == "test_stage.stg_a")
    assert stage.reads == (("test_raw.raw_a", RAW.key),)
    assert "VIEW `test_stage`.`stg_a`" in stage.statement
    assert "FROM `test_raw`.`raw_a`" in stage.statement
    for name, before in zip(prefixed, plain, strict=True):
        assert name.statement.replace("`test_", "`") == before.statement
        assert name.digest == before.digest


def test_a_foreign_name_is_told_with_its_location_and_what_to_do():
    (finding,) = compare(
        (A,),
        [Held("rawcore.rc_a", TABLE, "s3a://x/y")],
        locations={"a": "file:/w/a"},
        warehouse=WAREHOUSE,
        mark=MARK,
        whole=True,
    )
    assert finding.one_line() == (
        "rawcore.rc_a: foreign, the catalog has a table at s3a://x/y of that name that is not of this warehouse; "
        "rename or drop it there, then run manage.py publish"
    )


def test_a_name_that_another_table_of_the_warehouse_has_is_outdated():
    assert problems(Held("rawcore.rc_a", TABLE, "file:/w/b"), wanted=(A,)) == [("rawcore.rc_a", OUTDATED)]


def test_a_view_or_function_of_another_text_is_outdated():
    held = [replace(one, digest="0") if one.kind != TABLE else one for one in HELD]
    assert problems(*held) == [(CURRENT.name, OUTDATED), (AS_OF.name, OUTDATED)]


def test_a_table_in_place_of_a_view_of_the_warehouse_is_outdated():
    held = Held("rawcore.rc_a_current", TABLE, "file:/w/b")
    assert problems(HELD[0], held, HELD[2]) == [(CURRENT.name, OUTDATED)]


def test_only_entries_of_the_warehouse_can_be_extra_and_come_first():
    own = [Held("raw.old", TABLE, "file:/w/old"), Held("raw.v", VIEW, mark=MARK), Held("raw.f", FUNCTION, mark=MARK)]
    foreign = [Held("raw.x", TABLE, "file:/x"), Held("raw.w", VIEW), Held("raw.g", FUNCTION), Held("raw.t", TABLE)]
    found = problems(*own, *foreign)
    assert sorted(found[:3]) == [("raw.f", EXTRA), ("raw.old", EXTRA), ("raw.v", EXTRA)]
    assert [problem for _, problem in found[3:]] == [MISSING] * 3


def test_some_names_alone_find_nothing_extra():
    assert problems(Held("raw.old", TABLE, "file:/w/old"), wanted=(A,), whole=False) == [("rawcore.rc_a", MISSING)]


def test_names_are_compared_as_hive_holds_them_in_lower_case():
    wanted = (replace(A, name="rawcore.Rc_A"),)
    assert problems(HELD[0], wanted=wanted) == []


def test_a_function_and_a_table_may_have_one_name():
    assert problems(Held("rawcore.rc_a", FUNCTION), HELD[0], wanted=(A,)) == []


def test_tables_come_before_views_and_these_before_functions():
    state = historized(views=["current", "as_of"])
    kinds = [name.kind for name in names(state)]
    assert kinds == [TABLE, TABLE, VIEW, VIEW, FUNCTION]


def test_views_and_functions_carry_the_mark_and_their_digest():
    state = historized(views=["current", "as_of"])
    defined = [name for name in names(state) if name.kind != TABLE]
    mark = mark_of("/w")
    assert [mark in name.statement and name.digest in name.statement for name in defined] == [True] * 3


def test_a_digest_changes_with_a_type_beneath():
    wider = replace(RAW, columns=tuple(replace(column, type="string(99)") for column in RAW.columns))
    before, after = ({name.name: name.digest for name in names(raw, STAGE)} for raw in (RAW, wider))
    assert before["stage.stg_a"] != after["stage.stg_a"]


def test_names_of_some_datasets_come_with_views_over_their_tables():
    assert [name.name for name in narrowed(names(RAW, STAGE), {RAW.key})] == ["raw.raw_a", "stage.stg_a"]
    assert [name.name for name in narrowed(names(RAW, STAGE), {STAGE.key})] == ["stage.stg_a"]


def test_a_finding_says_in_one_line_what_kept_a_name_from_being_published():
    assert Finding("raw.a", TABLE, "failed", "no space").one_line() == "raw.a: failed, no space"
