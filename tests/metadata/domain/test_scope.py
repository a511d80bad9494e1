"""Tests of scopes: description, stored form and contradictions of their parts."""

import pytest

from metadata.domain.scope import ALL, DATASET, FILES, SCHEMA, SELECTION, Scope, ScopeProblem


@pytest.mark.parametrize(
    ("scope", "described"),
    [
        (Scope(), "all datasets"),
        (Scope(SCHEMA, "rawcore"), "schema rawcore"),
        (Scope(DATASET, "rawcore.rc_a"), "dataset rawcore.rc_a"),
        (Scope(DATASET, "rawcore.rc_a", target_only=True), "dataset rawcore.rc_a alone"),
        (Scope(SELECTION, "raw.a  tag:b", exclude="raw.c layer:raw"), "datasets raw.a, tag:b without raw.c, layer:raw"),
        (Scope(SELECTION, "a.a a.b a.c a.d a.e a.f"), "datasets a.a, a.b, a.c, a.d, a.e and 1 more"),
        (Scope(SCHEMA, "rawcore", without_blocked=True), "schema rawcore without blocked ones"),
        (Scope(FILES, source="dev", target="prod"), "dev → prod"),
        (Scope(FILES), "previous state → desired state"),
    ],
)
def test_scope_is_described_by_its_kind_and_first_words(scope: Scope, described: str) -> None:
    assert str(scope) == described


@pytest.mark.parametrize(
    ("scope", "row"),
    [
        (Scope(), {"kind": "all", "name": "", "target_only": False}),
        (
            Scope(SELECTION, "tag:a", exclude="raw.*"),
            {"kind": "selection", "name": "tag:a", "target_only": False, "exclude": "raw.*"},
        ),
        (
            Scope(without_blocked=True, without=("k",)),
            {"kind": "all", "name": "", "target_only": False, "without_blocked": True, "without": ["k"]},
        ),
    ],
)
def test_stored_scope_is_restored(scope: Scope, row: dict) -> None:
    assert scope.as_json() == row
    assert Scope.from_json(row) == scope


@pytest.mark.parametrize(
    ("parts", "message"),
    [
        ({"kind": "odd"}, "'odd' is no kind of scope"),
        ({"kind": SELECTION, "name": " "}, "names at least one dataset"),
        ({"kind": SELECTION, "name": "raw." * 30_000}, "have 120000 characters; 100000 are possible"),
        ({"kind": SCHEMA, "name": "raw", "exclude": "raw.a"}, "go with a selection"),
        ({"kind": DATASET, "name": "raw.a", "without_blocked": True}, "leaving out what is blocked"),
    ],
)
def test_contradicting_parts_are_refused(parts: dict, message: str) -> None:
    with pytest.raises(ScopeProblem, match=message):
        Scope(**parts)


@pytest.mark.parametrize(
    ("scope", "has_words"),
    [
        (Scope(SELECTION, "raw.a raw.b"), False),
        (Scope(SELECTION, "raw.a+"), True),
        (Scope(SELECTION, "raw.a raw.b", exclude="raw.b"), True),
        (Scope(DATASET, "raw.a"), False),
        (Scope(ALL), False),
    ],
)
def test_selection_of_names_alone_has_no_words(scope: Scope, has_words: bool) -> None:
    assert scope.has_words is has_words
