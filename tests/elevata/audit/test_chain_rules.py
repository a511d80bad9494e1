"""Properties of a hash chain: any change of any link is detected."""

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from elevata.audit.hash_chain import GENESIS, Head, Link, check_link, next_link, parse_head
from elevata.core.errors import MetadataError

DIGEST = "ab" * 32
AT = "2026-01-31T00:00:00.000000+00:00"


def chain(*subjects: int) -> list[Link]:
    end, links = Head(), []
    for subject in subjects:
        links.append(next_link(end, kind="change", subject=subject, digest=DIGEST, sealed_at=AT))
        end = Head(links[-1].sequence, links[-1].hash)
    return links


def first_problem(links: list[Link]) -> str | None:
    end = Head()
    for link in links:
        problem = check_link(end, link)
        if problem is not None:
            return problem.code
        end = Head(link.sequence, link.hash)
    return None


def test_the_hash_of_a_link_never_changes() -> None:
    assert chain(7)[0].hash == "5ab2ce7580c92b53dd40e39326271e99190b474c331d80877169c1900b0e7715"


def test_unchanged_chain_has_no_problem() -> None:
    assert first_problem(chain(3, 1, 2)) is None


def test_chain_check_reports_a_missing_link() -> None:
    links = chain(1, 2, 3)
    assert first_problem([links[0], links[2]]) == "link_missing"


def test_chain_check_reports_links_in_the_wrong_order() -> None:
    first, second = chain(1, 2)
    assert first_problem([second, first]) == "link_missing"


@given(
    st.integers(0, 4),
    st.sampled_from(
        [
            {"kind": "approval"},
            {"subject": 99},
            {"digest": "cd" * 32},
            {"previous": "ef" * 32},
            {"hash": "01" * 32},
            {"sealed_at": "2026-01-31T00:00:01.000000+00:00"},
            {"sequence": 77},
        ]
    ),
)
def test_any_change_of_any_link_is_found(position: int, changed: dict) -> None:
    links = chain(1, 2, 3, 4, 5)
    links[position] = replace(links[position], **changed)
    assert first_problem(links) in ("link_changed", "link_missing")


def test_forged_link_with_a_recomputed_hash_breaks_the_next_link() -> None:
    links = chain(1, 2, 3)
    forged = next_link(Head(1, links[0].hash), kind="change", subject=2, digest="cd" * 32, sealed_at=AT)
    assert first_problem([links[0], forged]) is None
    assert first_problem([links[0], forged, links[2]]) == "link_changed"


def test_a_head_is_read_from_an_artifact() -> None:
    head = Head(3, DIGEST)
    assert parse_head({"chain": head.as_json(), "other": 1}) == head


def test_head_of_an_empty_chain_is_parsed() -> None:
    assert parse_head({"chain": {"sequence": 0, "hash": GENESIS}}) == Head()


@pytest.mark.parametrize(
    ("artifact", "field"),
    [
        (None, "chain"),
        ([], "chain"),
        ({}, "chain"),
        ({"chain": None}, "chain"),
        ({"chain": {"hash": DIGEST}}, "chain.sequence"),
        ({"chain": {"sequence": "1", "hash": DIGEST}}, "chain.sequence"),
        ({"chain": {"sequence": True, "hash": DIGEST}}, "chain.sequence"),
        ({"chain": {"sequence": -1, "hash": DIGEST}}, "chain.sequence"),
        ({"chain": {"sequence": 1}}, "chain.hash"),
        ({"chain": {"sequence": 1, "hash": DIGEST.upper()}}, "chain.hash"),
        ({"chain": {"sequence": 1, "hash": GENESIS}}, "chain"),
        ({"chain": {"sequence": 0, "hash": DIGEST}}, "chain"),
    ],
)
def test_head_parser_refuses_an_artifact_without_a_valid_head(artifact: object, field: str) -> None:
    with pytest.raises(MetadataError) as refused:
        parse_head(artifact)
    assert (refused.value.code, refused.value.field) == ("invalid", field)
