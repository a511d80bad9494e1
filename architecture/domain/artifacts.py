"""Verification of exported proofs by the file alone: without database, network or clock.

Three formats: ``approval-artifact/v2`` (a report and its approvals), ``execution-record/v2`` (a sealed execution)
and ``maintenance-record/v2`` (an attempt of a maintenance run). Each contains the link of every row in the audit
chain, and the chain's head at the time of export (``elevata.audit.hash_chain``).
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from elevata.audit.hash_chain import link_hash, parse_head
from elevata.core.canonical_json import sha256_hex
from elevata.core.errors import MetadataError

APPROVALS, RECORD, MAINTENANCE = "approval-artifact/v2", "execution-record/v2", "maintenance-record/v2"


@dataclass(frozen=True)
class Finding:
    """Verification error of an artifact. ``where`` is the position in the file."""

    code: str
    where: str
    message: str

    def as_json(self) -> dict[str, str]:
        return {"code": self.code, "where": self.where, "message": self.message}


def verify(artifact: object) -> tuple[Finding, ...]:
    """Return all verification errors of an artifact; none if it is intact.

    Raises MetadataError ``invalid`` for a document that is no artifact.
    """
    if not isinstance(artifact, Mapping):
        raise MetadataError("invalid", "an artifact is a JSON object")
    checks = {APPROVALS: _approvals, RECORD: _record, MAINTENANCE: _document}
    form = artifact.get("format")
    check = checks.get(form) if isinstance(form, str) else None
    if check is None:
        known = " or ".join(checks)
        raise MetadataError("invalid", f"must be {known}, not {form!r}", "format")
    parse_head(artifact)
    try:
        return tuple(check(artifact))
    except (KeyError, TypeError, AttributeError, ValueError) as error:
        raise MetadataError("invalid", f"is not built like {artifact['format']}: {error!r}") from None


def _approvals(artifact: Mapping[str, Any]) -> Iterator[Finding]:
    yield from _fingerprint(artifact["report"], "report")
    for place, approval in enumerate(artifact["approvals"]):
        yield from _sealed_row(approval, artifact["chain"], f"approvals[{place}]")
        yield from _same_fingerprint(approval["row"], artifact["report"], f"approvals[{place}]")


def _document(artifact: Mapping[str, Any]) -> Iterator[Finding]:
    if sha256_hex(artifact["document"]) != artifact["row"]["digest"]:
        yield Finding("DIGEST", "document", "the record's content is not what its digest was made from")
    yield from _sealed_row(artifact, artifact["chain"], "row")


def _record(artifact: Mapping[str, Any]) -> Iterator[Finding]:
    document = artifact["document"]
    yield from _document(artifact)
    if document["report"] is not None:
        yield from _fingerprint(document["report"], "document.report")
    for place, approval in enumerate(document["approvals"]):
        yield from _same_fingerprint(approval, document["report"], f"document.approvals[{place}]")
    if document["preview"] is not None:
        yield from _preview(document["preview"], document["report"])


def _fingerprint(report: Mapping[str, Any], where: str) -> Iterator[Finding]:
    if sha256_hex(report["content"]) != report["fingerprint"]:
        yield Finding("FINGERPRINT", where, "the report's content is not what its fingerprint was made from")


def _preview(preview: Mapping[str, Any], report: Mapping[str, Any]) -> Iterator[Finding]:
    if sha256_hex(preview["document"]) != preview["fingerprint"]:
        yield Finding("FINGERPRINT", "document.preview", "the statements are not what the fingerprint was made from")
    if preview["document"]["report"] != report["fingerprint"]:
        yield Finding("OTHER_REPORT", "document.preview", "the preview is one of another report")


def _same_fingerprint(approval: Mapping[str, Any], report: Mapping[str, Any], where: str) -> Iterator[Finding]:
    if approval["fingerprint"] != report["fingerprint"]:
        yield Finding("OTHER_REPORT", where, "the decision was on another fingerprint")


def _sealed_row(sealed: Mapping[str, Any], head: Mapping[str, Any], where: str) -> Iterator[Finding]:
    """Yield errors unless the link's digest matches the row and the chain leads from the link to its head."""
    link = sealed["link"]
    if sha256_hex(sealed["row"]) != link["digest"]:
        yield Finding("DIGEST", where, "the row's content is not what was sealed")
    if link["subject"] != sealed["row"]["id"]:
        yield Finding("OTHER_ROW", where, "the link seals another row")
    expected = link_hash(
        **{name: link[name] for name in ("sequence", "kind", "subject", "digest", "previous", "sealed_at")}
    )
    if expected != link["hash"]:
        yield Finding("LINK", where, "the link's hash is not that of its content")
    beyond = link["sequence"] > head["sequence"]
    if beyond or (link["sequence"] == head["sequence"] and link["hash"] != head["hash"]):
        yield Finding("HEAD", where, "the link does not belong to the chain whose head the file carries")
