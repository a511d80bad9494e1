"""The guards that stand before every load of a history."""

import pytest

from loader.domain.history import DeleteGuard, check_later
from loader.domain.refusals import Refusal


def test_a_run_that_is_not_later_is_refused():
    with pytest.raises(Refusal, match="not later") as refused:
        check_later(name="t", at="2024-01-01T00:00:00Z", newest=["2024-01-01T01:00:00+01:00"])
    assert refused.value.code == "NOT_LATER"


def test_a_first_run_is_never_too_early():
    check_later(name="t", at="1970-01-01T00:00:00Z", newest=[None])


@pytest.mark.parametrize(("rows", "would_close", "allowed"), [(1, 5, False), (0, 0, False), (0, 5, True)])
def test_an_empty_snapshot_is_taken_if_it_closes_nothing_or_is_allowed(rows, would_close, allowed):
    DeleteGuard(allow_empty=allowed).check(name="t", rows=rows, would_close=would_close, open_keys=5)


@pytest.mark.parametrize("allow_deletes", [False, True])
def test_an_empty_snapshot_that_would_close_versions_is_refused(allow_deletes):
    with pytest.raises(Refusal) as refused:
        DeleteGuard(allow_deletes=allow_deletes).check(name="t", rows=0, would_close=7, open_keys=7)
    assert (refused.value.code, refused.value.count) == ("EMPTY_SNAPSHOT", 7)


@pytest.mark.parametrize(
    ("would_close", "open_keys", "guard"),
    [
        (1000, 1000, DeleteGuard()),
        (2000, 10_000, DeleteGuard()),
        (9000, 10_000, DeleteGuard(allow_deletes=True)),
        (9000, 10_000, DeleteGuard(share=0.9)),
        (9000, 10_000, DeleteGuard(keys=9000)),
    ],
)
def test_a_snapshot_that_lacks_few_keys_or_is_allowed_to_is_taken(would_close, open_keys, guard):
    guard.check(name="t", rows=1, would_close=would_close, open_keys=open_keys)


def test_a_snapshot_that_lacks_many_keys_is_refused_with_count_and_share():
    with pytest.raises(Refusal) as refused:
        DeleteGuard().check(name="t", rows=7999, would_close=2001, open_keys=10_000)
    assert (refused.value.code, refused.value.count) == ("TOO_MANY_DELETES", 2001)
    assert "lacks 2001 of the 10000 open keys (20%)" in refused.value.message
    assert "--allow-deletes" in refused.value.hint
