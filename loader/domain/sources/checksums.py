"""Verification of Delta's checksum files against the log.

Beside each commit Delta writes a checksum that lists the table's files and transactions, so that a reader need
not replay the log. It is optional and may be wrong: after a copy, a restore of some files, or on a store
that keeps no checksums of its own, one of another version or an incomplete one may be found. A reader of a wrong
list would read rows twice or miss them, so it is compared with the commits since the last checkpoint before it is
used.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

# A file as the log knows it: its path, and the id of the deletion vector over it ("" for none).
FileId = tuple[str, str]


@dataclass(frozen=True)
class Checksum:
    """The facts of one version's checksum; ``listed`` is None where it lists no files."""

    txn_id: str | None
    files: int
    bytes: int
    listed: Mapping[FileId, int] | None
    transactions: Mapping[str, int] | None


def contradiction(checksum: Checksum, commits: Sequence[Iterable[Mapping[str, Any]]]) -> str:
    """Return how the log contradicts a checksum, empty if it does not.

    ``commits`` are the actions of the newest commits, the newest first; the first is the checksum's version.
    A missing transaction id in the commit or the checksum counts as a contradiction: nothing ties them together.
    """
    newest = [list(commit) for commit in commits]
    if not newest:
        return "its commit is no longer in the log"
    txn_id = next((one["commitInfo"].get("txnId") for one in newest[0] if "commitInfo" in one), None)
    if txn_id is None or checksum.txn_id != txn_id:
        return "it was written for another commit"
    if checksum.listed is not None:
        if len(checksum.listed) != checksum.files or sum(checksum.listed.values()) != checksum.bytes:
            return f"it counts {checksum.files} files and lists {len(checksum.listed)}"
        for file, there in _files(newest).items():
            if (file in checksum.listed) is not there:
                return f"the log {'has' if there else 'no longer has'} the file {file[0]}"
    if checksum.transactions is not None:
        for app, version in _transactions(newest).items():
            if checksum.transactions.get(app) != version:
                return f"the log has transaction {version} of {app}"
    return ""


def _files(commits: Iterable[list[Mapping[str, Any]]]) -> dict[FileId, bool]:
    """Return the files that these commits name: true where the newest action on one adds it."""
    found: dict[FileId, bool] = {}
    for commit in commits:
        own = {}
        for action in commit:
            # One commit may remove a file and add it again with another deletion vector: they differ by id.
            for kind, there in (("remove", False), ("add", True)):
                if kind in action:
                    own[file_id(action[kind])] = there
        found = own | found
    return found


def _transactions(commits: Iterable[list[Mapping[str, Any]]]) -> dict[str, int]:
    found: dict[str, int] = {}
    for commit in commits:
        own = {action["txn"]["appId"]: action["txn"]["version"] for action in commit if "txn" in action}
        found = own | found
    return found


def file_id(file: Mapping[str, Any]) -> FileId:
    """Return the identity of an ``add`` or ``remove`` of the log."""
    vector = file.get("deletionVector")
    if not vector:
        return file["path"], ""
    offset = vector.get("offset")
    unique = vector["storageType"] + vector["pathOrInlineDv"] + ("" if offset is None else f"@{offset}")
    return file["path"], unique
