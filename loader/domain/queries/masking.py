"""Masking: columns of a table as one reader sees them, and refusals without values.

Pure. A column is unmasked, a keyed hash, or masked. One without a description is masked, since its sensitivity is
unknown. A hash of a sensitive key is hashed again with a secret: otherwise a guessed key could be confirmed by its
hash.
"""

from collections.abc import Collection, Mapping
from dataclasses import dataclass, replace
from typing import Any

from architecture.domain.tables import ColumnSpec, TableSpec
from loader.domain.manifest import Masking
from loader.domain.refusals import SAID, Refusal
from metadata.domain.history_policy import HistoryPolicy

# Columns that hold the time by which versions are dated.
_DATED = ("started_at", "ended_at", "updated_at", "event_at")
# Codes of refusals: with values of the named column as samples, with names as samples, with Spark's own message.
_OF_ONE_COLUMN = ("VALUE_DOES_NOT_FIT", "CAST_FAILS")
_OF_NAMES = ("MISSING_COLUMN", "UNKNOWN_COLUMN", "DUPLICATE_COLUMN")
_BY_SPARK = ("UNEXPECTED", "STEP_FAILED")
_OF_VERSIONS = ("versions", "as_of", "changes")
# Arguments that contain values of the business key.
_BY_KEY = ("text", "after", "business_key")


@dataclass(frozen=True)
class Sensitive:
    """Stable keys and current names (lower case) of a dataset's sensitive columns, and stable keys of all columns."""

    keys: frozenset[str]
    names: frozenset[str]
    known_keys: frozenset[str]

    def has(self, column: ColumnSpec) -> bool:
        return column.key in self.keys or column.name.lower() in self.names


def masking_of(table: TableSpec, sensitive: Sensitive, policy: HistoryPolicy, secret: str) -> Masking:
    """Return the masking for a reader without the permission to read sensitive values."""
    described = table.of_purpose("business_key", "attribute")
    masked = {column.key for column in described if sensitive.has(column)}
    hashed = {column.key for column in table.columns if masked & {part for _, part in column.hash_of}}
    # A history key is a hash of the entity key, so it is hashed wherever that one is.
    hashed |= {column.key for column in table.columns if hashed & {part for _, part in column.hash_of}}
    if masked:
        masked |= {column.key for column in table.of_purpose("row_hash")}
    if _dated_by_masked(table, sensitive, policy):
        masked |= {column.key for column in table.of_purpose(*_DATED)}
    shown = [column for column in table.columns if column.key not in masked | hashed]
    others = sensitive.known_keys - sensitive.keys - masked - hashed
    return Masking(
        shown=tuple(sorted({column.key for column in shown} | others)),
        shown_names=tuple(column.name.lower() for column in shown),
        hashed=tuple(sorted(hashed)),
        secret=secret,
    )


def _dated_by_masked(table: TableSpec, sensitive: Sensitive, policy: HistoryPolicy) -> bool:
    name = (policy.time_column or "").lower()
    return any(column.name.lower() == name and sensitive.has(column) for column in table.columns)


def without_values(refusal: Refusal, sensitive: Collection[str]) -> Refusal:
    """Return a refusal without any value of a sensitive column: without samples, unless they are harmless.

    ``sensitive`` are names in lower case. A refusal about the values of one other column stays as it is, and so
    does one whose samples are names.
    """
    if not sensitive or refusal.code in _OF_NAMES:
        return refusal
    if refusal.code in _OF_ONE_COLUMN and refusal.column and refusal.column.lower() not in sensitive:
        return refusal
    message, hint = refusal.message, refusal.hint
    if refusal.code in SAID:
        refusal = replace(refusal, file="")
        message = f"{message.partition(':')[0]}: {SAID[refusal.code]}; what Spark says of it may hold sensitive values"
    if refusal.code in _BY_SPARK:
        message = f"{message.partition(':')[0]}: it failed; what Spark says of it may hold sensitive values"
    if refusal.samples:
        hint = f"{hint} Examples are masked: the dataset has sensitive columns.".strip()
    return replace(refusal, message=message, hint=hint, samples=())


def may_hold_values(error: Mapping[str, Any]) -> bool:
    """Return whether a refusal as JSON has samples, or a message that comes from Spark."""
    return bool(error.get("samples")) or error.get("code") in (*_BY_SPARK, *SAID)


def without_examples(error: Mapping[str, Any] | None, name: str) -> dict[str, Any] | None:
    """Return a refusal as JSON for a reader who may not read the data of ``name``: without any value."""
    if not error:
        return None
    refusal = without_values(replace(Refusal.from_json(dict(error)), column=""), ("",))
    hint = f"You need the permission metadata.read_data for {name} to see examples." if error.get("samples") else ""
    return replace(refusal, column=error.get("column", ""), hint=hint or error.get("hint", "")).as_json()


def without_any_value(error: Mapping[str, Any]) -> str:
    """Return a refusal, given as JSON, on one line for logs, notices and runs: without any value."""
    refusal = Refusal.from_json(dict(error))
    return replace(without_values(replace(refusal, column=""), ("",)), hint=refusal.hint).one_line()


def must_not_tell(kind: str, arguments: Mapping[str, Any], table: TableSpec, masking: Masking) -> None:
    """Raise Refusal MASKED_COLUMN for a read whose rows would reveal a masked value by being selected."""
    keys = masked_names(table.of_purpose("business_key"), masking)
    used = [name for name in _BY_KEY if arguments.get(name)]
    if keys and used:
        raise _refused(f"{', '.join(keys)} is masked for you, so rows cannot be found by it")
    if kind in _OF_VERSIONS and masked_names(table.of_purpose("started_at"), masking):
        raise _refused("versions are dated by a column that is masked for you")


def masked_names(columns: Collection[ColumnSpec], masking: Masking) -> list[str]:
    """Return the names of the columns that are masked for a reader."""
    return [column.name for column in columns if column.key not in (*masking.shown, *masking.hashed)]


def _refused(said: str) -> Refusal:
    return Refusal(
        "MASKED_COLUMN",
        said,
        hint="Ask an administrator for the role of a steward, or find rows by the hash of their key.",
    )
