"""Verification of Delta's checksum files against the log.

With each commit, Delta writes a checksum file that lists the table's files and transactions, so that readers need not
replay the log. It is optional and may be wrong: after a copy, a partial restore, or on some stores, it may be of
another version or incomplete. With a wrong list, rows would be read twice or missed, so it is compared with the commits
since the last checkpoint before it is used.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

# File in the log: its path, and the id of its deletion vector ("" for none).
FileId = tuple[str, str]


@dataclass(frozen=True)
class Checksum:
    """Checksum of one version; ``listed`` is None if it lists no files."""

    txn_id: str | None
    files: int
    bytes: int
    listed: Mapping[FileId, int] | None
    transactions: Mapping[str, int] | None


def contradiction(checksum: Checksum, commits: Sequence[Iterable[Mapping[str, Any]]], *, needs_id: bool = True) -> str:
    """Return the contradiction between the log and a checksum; empty without one.

    ``commits`` are the actions of the newest commits, newest first; ``commits[0]`` is the commit of the checksum's
    version. With ``needs_id``, a missing commit or transaction id counts as a contradiction, because they cannot be
    matched: this session writes both.
    """
    newest = [list(commit) for commit in commits]
    if not newest:
        return "its commit is no longer in the log" if needs_id else ""
    txn_id = next((action["commitInfo"].get("txnId") for action in newest[0] if "commitInfo" in action), None)
    are_known = checksum.txn_id is not None and txn_id is not None
    if checksum.txn_id != txn_id if are_known else needs_id:
        return "it was written for another commit"
    if checksum.listed is not None:
        if len(checksum.listed) != checksum.files or sum(checksum.listed.values()) != checksum.bytes:
            return f"it counts {checksum.files} files and lists {len(checksum.listed)}"
        for file, is_added in _files(newest).items():
            if (file in checksum.listed) is not is_added:
                return f"the log {'has' if is_added else 'no longer has'} the file {file[0]}"
    if checksum.transactions is not None:
        for app, version in _transactions(newest).items():
            if checksum.transactions.get(app) != version:
                return f"the log has transaction {version} of {app}"
    return ""


def _files(commits: Iterable[list[Mapping[str, Any]]]) -> dict[FileId, bool]:
    """Return the files in these commits, with True if the newest action on a file adds it."""
    files: dict[FileId, bool] = {}
    for commit in commits:
        own = {}
        for action in commit:
            # One commit may remove a file and add it again with another deletion vector: two ids, and both are kept.
            for kind, is_added in (("remove", False), ("add", True)):
                if kind in action:
                    own[file_id(action[kind])] = is_added
        files = own | files
    return files


def _transactions(commits: Iterable[list[Mapping[str, Any]]]) -> dict[str, int]:
    transactions: dict[str, int] = {}
    for commit in commits:
        own = {action["txn"]["appId"]: action["txn"]["version"] for action in commit if "txn" in action}
        transactions = own | transactions
    return transactions


def file_id(file: Mapping[str, Any]) -> FileId:
    """Return the identity of the file in an ``add`` or ``remove`` action."""
    vector = file.get("deletionVector")
    if not vector:
        return file["path"], ""
    offset = vector.get("offset")
    unique = vector["storageType"] + vector["pathOrInlineDv"] + ("" if offset is None else f"@{offset}")
    return file["path"], unique


def checksum_of(checksum: Any) -> Checksum:
    files, transactions = checksum.allFiles(), checksum.setTransactions()
    return Checksum(
        txn_id=checksum.txnId().get() if checksum.txnId().isDefined() else None,
        files=checksum.numFiles(),
        bytes=checksum.tableSizeBytes(),
        listed={_file_id(file): file.size() for file in list_of(files.get())} if files.isDefined() else None,
        transactions={txn.appId(): txn.version() for txn in list_of(transactions.get())}
        if transactions.isDefined()
        else None,
    )


def _file_id(file: Any) -> FileId:
    vector = file.deletionVector()
    return file.path(), vector.uniqueId() if vector else ""


def list_of(scala_seq) -> list[Any]:
    return [scala_seq.apply(i) for i in range(scala_seq.length())]
