"""Tests of audit exports: any change of a file's bytes is detected from the file alone."""

import json
from collections.abc import Callable

import pytest
from hypothesis import given
from hypothesis import strategies as st

from elevata.audit.export_format import SEGMENT, SELECTION, Broken, export_lines, verify_lines
from elevata.audit.hash_chain import Head, Link, next_link
from elevata.core.canonical_json import canonical_json, sha256_hex
from elevata.core.errors import MetadataError

AT = "2026-01-31T00:00:00.000000+00:00"
START = Head(4, "a" * 64)


def rows(count: int, start: Head = START) -> list[tuple[Link, dict]]:
    linked_rows, head = [], start
    for number in range(count):
        content = {"id": number + 1, "actor": "ada", "changes": "{}"}
        link = next_link(head, kind="change", subject=number + 1, digest=sha256_hex(content), sealed_at=AT)
        head = Head(link.sequence, link.hash)
        linked_rows.append((link, content))
    return linked_rows


def segment(count: int = 3) -> list[bytes]:
    linked = rows(count)
    last = linked[-1][0]
    header = {"content": SEGMENT, "first": 5, "last": last.sequence, "previous": START.hash, "head": last.hash}
    return list(export_lines(header | {"chain": Head(last.sequence, last.hash).as_json()}, linked))


def selection(linked: list[tuple[Link | None, dict]] | None = None) -> list[bytes]:
    chosen = linked if linked is not None else [rows(5)[0], rows(5)[3]]
    return list(export_lines({"content": SELECTION, "chosen": {}, "chain": Head(9, "b" * 64).as_json()}, chosen))


def problem_of(lines: list[bytes]) -> str:
    """Return the code of the problem in an export."""
    with pytest.raises((Broken, MetadataError)) as refused:
        verify_lines(lines)
    raised = refused.value
    return raised.problem.code if isinstance(raised, Broken) else raised.code


def with_change(line: bytes, change: Callable[[dict], None]) -> bytes:
    document = json.loads(line)
    change(document)
    return canonical_json(document) + b"\n"


def test_verified_segment_has_the_links_and_rows_it_was_written_with() -> None:
    holds = verify_lines(segment())
    assert (holds.content, holds.first, holds.last, holds.rows) == (SEGMENT, 5, 7, {"change": 3})
    assert holds.head.hash == rows(3)[-1][0].hash


def test_selection_may_omit_rows() -> None:
    assert verify_lines(selection()).rows == {"change": 2}


def test_verified_selection_counts_rows_without_a_link() -> None:
    holds = verify_lines(selection([rows(1)[0], (None, {"id": 9})]))
    assert (holds.rows, holds.unlinked) == ({"change": 1}, 1)


@pytest.mark.parametrize("lines", [segment(), selection()], ids=["segment", "selection"])
def test_verification_detects_an_altered_row(lines: list[bytes]) -> None:
    lines[2] = with_change(lines[2], lambda row: row["row"].update(actor="mallory"))
    assert problem_of(lines) == "row_changed"


def test_a_row_that_was_altered_with_its_digest_is_found() -> None:
    def alter(document: dict) -> None:
        document["row"]["actor"] = "mallory"
        document["link"]["digest"] = sha256_hex(document["row"])

    lines = segment()
    lines[2] = with_change(lines[2], alter)
    assert problem_of(lines) == "link_changed"


def test_verification_detects_a_row_whose_id_differs_from_its_link() -> None:
    lines = segment()
    lines[1] = with_change(lines[1], lambda row: row["row"].update(id=7))
    assert problem_of(lines) == "row_changed"


def test_verification_detects_a_row_deleted_from_a_segment() -> None:
    lines = segment()
    assert problem_of(lines[:2] + lines[3:]) == "link_missing"


def test_verification_detects_a_row_deleted_from_a_selection() -> None:
    lines = selection()
    assert problem_of(lines[:1] + lines[2:]) == "row_changed"


def test_verification_detects_a_segment_with_a_changed_head() -> None:
    lines = segment()
    lines[0] = with_change(lines[0], lambda header: header.update(head="c" * 64))
    assert problem_of(lines) in ("row_changed", "link_missing")


def test_a_link_beyond_the_head_is_found() -> None:
    assert problem_of(selection([rows(9)[8]])) == "head_changed"


def test_verification_detects_a_truncated_export() -> None:
    assert problem_of(segment()[:-1]) == "cut_off"


def test_verification_detects_lines_after_the_end_of_an_export() -> None:
    lines = segment()
    assert problem_of([*lines, lines[1]]) == "cut_off"


@pytest.mark.parametrize("lines", [[], [b"{}\n"], [b"[]\n"], [b"no\n"], [b'{"format":"audit-export/v2"}\n']])
def test_verification_refuses_files_that_are_not_exports(lines: list[bytes]) -> None:
    assert problem_of(lines) == "invalid"


@given(st.data())
def test_alteration_of_any_byte_is_detected(data: st.DataObject) -> None:
    whole = b"".join(segment(2))
    # The last line feed has no meaning.
    place = data.draw(st.integers(0, len(whole) - 2))
    other = data.draw(st.integers(0, 255).filter(lambda byte: byte != whole[place]))
    altered = whole[:place] + bytes([other]) + whole[place + 1 :]
    with pytest.raises((Broken, MetadataError)):
        verify_lines(altered.splitlines(keepends=True))
