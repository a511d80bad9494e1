"""Comparison of names to publish with the entries of a shared catalog."""

from dataclasses import replace

import pytest

from loader.contract.manifest.publication import PublishedName
from loader.domain.catalogs.catalog import TABLE, VIEW, catalog_of
from loader.domain.catalogs.publication import (
    EXTRA,
    FAILED,
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


def problems(
    *entries: Held, wanted=(A, CURRENT, AS_OF), whole: bool = True, shared: bool = True
) -> list[tuple[str, str]]:
    locations = {name.key: f"file:/w/{name.key}" for name in wanted if name.key}
    findings = compare(wanted, entries, locations=locations, warehouse=WAREHOUSE, mark=MARK, whole=whole, shared=shared)
    return [(finding.name, finding.problem) for finding in findings]


def names(*states) -> list[PublishedName]:
    return list(names_of(catalog_of(states, warehouse="/w"), states, warehouse="/w"))


def test_catalog_with_every_name_has_no_findings():
    assert problems(*HELD) == []


def test_an_empty_catalog_lacks_every_name():
    assert problems() == [(name.name, MISSING) for name in (A, CURRENT, AS_OF)]


@pytest.mark.parametrize(
    "entry",
    [
        Held("rawcore.rc_a", TABLE, "file:/elsewhere/a"),
        Held("rawcore.rc_a", TABLE, "file:/warehouse_of_others/a"),
        Held("rawcore.rc_a", TABLE, "file:/w/nested_warehouse/a"),
        Held("rawcore.rc_a", TABLE, "file:/w/.catalog/rawcore.db/rc_a"),
        Held("rawcore.rc_a", TABLE, "file:/w/.catalog"),
        Held("rawcore.rc_a", TABLE),
        Held("rawcore.rc_a", VIEW, mark=mark_of("file:/other"), digest="1"),
    ],
)
def test_name_held_by_an_object_outside_the_warehouse_is_foreign(entry):
    assert problems(entry, wanted=(A,)) == [("rawcore.rc_a", FOREIGN)]


def test_unshared_catalog_has_no_foreign_names():
    entries = (Held("rawcore.rc_a", TABLE, "file:/elsewhere/a"), Held("rawcore.rc_b", VIEW, mark="of another"))
    assert problems(*entries, wanted=(A,), shared=False) == [("rawcore.rc_b", EXTRA), ("rawcore.rc_a", OUTDATED)]


def test_concerned_datasets_include_dependent_views_and_their_inputs():
    other = replace(RAW, key=RAW.key.replace(RAW.key[0], "f"), name="raw_other")
    assert concerned([RAW, STAGE, other], {RAW.key}) == (RAW, STAGE)
    assert concerned([RAW, STAGE, other], {STAGE.key}) == (RAW, STAGE)
    assert concerned([RAW, STAGE, other], {other.key, "unknown"}) == (other,)


def test_prefix_applies_to_published_schemas_and_to_the_tables_in_their_statements():
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


def test_finding_of_a_foreign_name_includes_its_location_and_the_remedy():
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


def test_name_of_another_table_of_the_warehouse_is_outdated():
    assert problems(Held("rawcore.rc_a", TABLE, "file:/w/b"), wanted=(A,)) == [("rawcore.rc_a", OUTDATED)]


def test_view_or_function_with_another_digest_is_outdated():
    outdated = [replace(entry, digest="0") if entry.kind != TABLE else entry for entry in HELD]
    assert problems(*outdated) == [(CURRENT.name, OUTDATED), (AS_OF.name, OUTDATED)]


def test_a_table_in_place_of_a_view_of_the_warehouse_is_outdated():
    stored_table = Held("rawcore.rc_a_current", TABLE, "file:/w/b")
    assert problems(HELD[0], stored_table, HELD[2]) == [(CURRENT.name, OUTDATED)]


def test_only_entries_of_the_warehouse_can_be_extra_and_come_first():
    own = [Held("raw.old", TABLE, "file:/w/old"), Held("raw.v", VIEW, mark=MARK), Held("raw.f", FUNCTION, mark=MARK)]
    foreign = [Held("raw.x", TABLE, "file:/x"), Held("raw.w", VIEW), Held("raw.g", FUNCTION), Held("raw.t", TABLE)]
    foreign += [Held("raw.n", TABLE, "file:/w/nested/a"), Held("raw.m", TABLE, "file:/w/.catalog/raw.db/m")]
    findings = problems(*own, *foreign)
    assert sorted(findings[:3]) == [("raw.f", EXTRA), ("raw.old", EXTRA), ("raw.v", EXTRA)]
    assert [problem for _, problem in findings[3:]] == [MISSING] * 3


def test_view_of_the_warehouse_over_a_name_of_others_is_outdated():
    foreign = Held("rawcore.rc_a", TABLE, "file:/elsewhere/a")
    expected = [(A.name, FOREIGN), (CURRENT.name, OUTDATED), (AS_OF.name, OUTDATED)]
    assert problems(foreign, *HELD[1:]) == expected


def test_view_whose_query_was_changed_in_the_catalog_is_outdated():
    view = replace(CURRENT, statement="CREATE OR REPLACE VIEW x\nAS /* one */ SELECT 1 -- a note\n")
    for text in ("SELECT 2", "SELECT '1'", "SELECT 1 -- a note\nFROM others", ""):
        assert problems(HELD[0], replace(HELD[1], text=text), wanted=(A, view)) == [(view.name, OUTDATED)], text
    for text in ("SELECT 1", " SELECT 1\n", None):  # Spark stores the query without comments around it
        assert problems(HELD[0], replace(HELD[1], text=text), wanted=(A, view)) == [], text


def test_table_whose_files_a_drop_would_delete_is_altered_but_never_dropped():
    purged = replace(HELD[0], purged=True)
    assert problems(purged, wanted=(A,)) == [(A.name, OUTDATED)]
    assert problems(purged, wanted=()) == [(A.name, FAILED)]
    assert problems(replace(purged, name=CURRENT.name), HELD[0], wanted=(A, CURRENT)) == [(CURRENT.name, FAILED)]


def test_partial_comparison_reports_no_extra_names():
    assert problems(Held("raw.old", TABLE, "file:/w/old"), wanted=(A,), whole=False) == [("rawcore.rc_a", MISSING)]


def test_names_are_compared_in_lower_case():
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


def test_view_digest_changes_with_the_type_of_an_input_column():
    wider = replace(RAW, columns=tuple(replace(column, type="string(99)") for column in RAW.columns))
    before, after = ({name.name: name.digest for name in names(raw, STAGE)} for raw in (RAW, wider))
    assert before["stage.stg_a"] != after["stage.stg_a"]


def test_narrowed_names_include_views_over_the_chosen_tables_and_all_tables_that_they_read():
    assert [name.name for name in narrowed(names(RAW, STAGE), {RAW.key})] == ["raw.raw_a", "stage.stg_a"]
    assert [name.name for name in narrowed(names(RAW, STAGE), {STAGE.key})] == ["raw.raw_a", "stage.stg_a"]
    joined = replace(CURRENT, name="stage.joined", reads=(("raw.a", "a"), ("raw.b", "b")))
    raw = [replace(A, name=f"raw.{key}", dataset=key, key=key) for key in "abc"]
    assert [name.name for name in narrowed([*raw, joined], {"a"})] == ["raw.a", "raw.b", "stage.joined"]


def test_finding_of_a_foreign_name_has_no_credentials_of_its_location():
    held = Held("rawcore.rc_a", TABLE, "s3a://KEY:SECRET/part@bucket/t")
    (finding,) = compare((A,), [held], locations={"a": "file:/w/a"}, warehouse=WAREHOUSE, mark=MARK, whole=True)
    assert "at s3a://bucket/t of" in finding.message
    held = Held("rawcore.rc_a", TABLE, "abfss://container@account.dfs.core.windows.net/t")
    (finding,) = compare((A,), [held], locations={"a": "file:/w/a"}, warehouse=WAREHOUSE, mark=MARK, whole=True)
    assert held.location in finding.message
    held = Held("rawcore.rc_a", TABLE, "hdfs://name.example.org:8020/a@b/t")
    (finding,) = compare((A,), [held], locations={"a": "file:/w/a"}, warehouse=WAREHOUSE, mark=MARK, whole=True)
    assert held.location in finding.message


def test_finding_states_in_one_line_why_a_name_was_not_published():
    assert Finding("raw.a", TABLE, "failed", "no space").one_line() == "raw.a: failed, no space"
