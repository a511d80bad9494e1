"""Masking: columns of a table for one reader, and refusals without values.

Pure. A column is unmasked, hashed with a secret, or masked. A column that is not described, by its stable key or by a
present or former name, is masked, since its sensitivity is unknown. A hash of a sensitive key is hashed again with a
secret, because a plain hash would confirm a guessed key.
"""

from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, replace
from typing import Any

from architecture.domain.tables import ColumnSpec, TableSpec
from elevata.core.errors import MESSAGES_OF_SPARK
from loader.contract.manifest.reads import Masking
from loader.contract.refusals import Refusal
from loader.domain.queries.answers import ORIGIN, rows_kind
from loader.domain.queries.row_selection import RowSelection
from loader.domain.spark_failures import MESSAGES
from metadata.domain.history.history_policy import HistoryPolicy
from metadata.domain.state import ColumnState

# Purposes of columns with the time by which versions are dated.
_DATED = ("started_at", "ended_at", "updated_at", "event_at", "event_own")
# Codes of refusals with values of the named column as samples, and with names as samples.
_SAMPLES_OF_COLUMN = ("VALUE_DOES_NOT_FIT", "CAST_FAILS", "WATERMARK_BACKWARDS", "COPY_FAILED")
NAMES_AS_SAMPLES = ("MISSING_COLUMN", "UNKNOWN_COLUMN", "DUPLICATE_COLUMN")
_VERSION_READS = ("versions", "as_of", "changes")
# Arguments that contain values of the business key.
_KEY_ARGUMENTS = ("after", "business_key")
# Kinds of reads whose rows a selection chooses.
_SELECTED = ("sample", "as_of", "changes")


@dataclass(frozen=True)
class Sensitive:
    """Stable keys and current names (lower case) of a dataset's sensitive columns, and stable keys of all columns.

    ``other_names`` are the present and former names of the other columns that no sensitive column has or had.
    """

    keys: frozenset[str]
    names: frozenset[str]
    known_keys: frozenset[str]
    other_names: frozenset[str] = frozenset()

    def has(self, column: ColumnSpec | ColumnState) -> bool:
        """Return True for a sensitive column, and for one that neither its key nor its name proves to be none.

        An environment may have other stable keys, and names from before a rename.
        """
        name = column.name.lower()
        if column.key in self.keys or name in self.names:
            return True
        return column.key not in self.known_keys and name not in self.other_names


def masking_of(table: TableSpec, sensitive: Sensitive, policy: HistoryPolicy, secret: str) -> Masking:
    """Return the masking for a reader without the permission to read sensitive values."""
    described = table.of_purpose("business_key", "attribute")
    masked = {column.key for column in described if sensitive.has(column)}
    # Rows that were loaded before a column was retired have its values in their hash.
    row_hash = {column.key for column in table.of_purpose("row_hash")} if masked or sensitive.keys else set()
    if _is_dated_by_sensitive(table, sensitive, policy):
        masked |= {column.key for column in table.of_purpose(*_DATED)}
    hashed = {column.key for column in table.columns if masked & {part for _, part in column.hash_of}}
    # A history key is a hash of the entity key, so it is hashed if that is hashed.
    hashed |= {column.key for column in table.columns if hashed & {part for _, part in column.hash_of}}
    masked |= row_hash
    shown = [column for column in table.columns if column.key not in masked | hashed]
    others = sensitive.known_keys - sensitive.keys - masked - hashed
    return Masking(
        shown=tuple(sorted({column.key for column in shown} | others)),
        shown_names=tuple(column.name.lower() for column in shown),
        hashed=tuple(sorted(hashed)),
        secret=secret,
    )


def _is_dated_by_sensitive(table: TableSpec, sensitive: Sensitive, policy: HistoryPolicy) -> bool:
    """Return True if a sensitive column dates the versions; the table may still have its former name."""
    name = (policy.time_column or "").lower()
    described = table.of_purpose("business_key", "attribute")
    return name in sensitive.names or any(column.name.lower() == name and sensitive.has(column) for column in described)


def without_values(refusal: Refusal, sensitive: Collection[str]) -> Refusal:
    """Return a refusal without values of sensitive columns: samples are removed unless they are harmless.

    ``sensitive`` are names in lower case. A refusal about values of another column is unchanged, as is one with names
    as samples. The same goes for each of its faults.
    """
    if refusal.faults:
        refusal = replace(refusal, faults=tuple(without_values(fault, sensitive) for fault in refusal.faults))
    if not sensitive or refusal.code in NAMES_AS_SAMPLES:
        return refusal
    of_another = refusal.code in _SAMPLES_OF_COLUMN and refusal.column and refusal.column.lower() not in sensitive
    if of_another and not _names_any(refusal.samples, sensitive):
        return refusal
    message, hint = refusal.message, refusal.hint
    if refusal.code in MESSAGES:
        refusal = replace(refusal, file="")
        what = message.partition(":")[0]
        message = f"{what}: {MESSAGES[refusal.code]}; Spark's own message may contain sensitive values"
    if refusal.code in MESSAGES_OF_SPARK:
        message = f"{message.partition(':')[0]}: it failed; Spark's own message may contain sensitive values"
    if refusal.samples:
        hint = f"{hint} Examples are masked: the dataset has sensitive columns.".strip()
    return replace(refusal, message=message, hint=hint, samples=())


def _names_any(samples: Collection[str], names: Collection[str]) -> bool:
    """Return True if a sample has a row's key with one of these columns, as ``name=value``."""
    return any(f"{name}=" in sample.lower() for name in names for sample in samples)


def may_hold_values(error: Mapping[str, Any]) -> bool:
    """Return True if a refusal as JSON has samples, or a message of Spark."""
    has_samples = bool(error.get("samples") or error.get("faults"))
    return has_samples or error.get("code") in (*MESSAGES_OF_SPARK, *MESSAGES)


def without_examples(error: Mapping[str, Any] | None, name: str) -> dict[str, Any] | None:
    """Return a refusal as JSON, without any value, for a reader who may not read the data of ``name``."""
    if not error:
        return None
    given = Refusal.from_json(dict(error))
    faults = tuple(replace(fault, samples=()) for fault in given.faults)
    refusal = without_values(replace(given, column="", faults=()), ("",))
    hint = f"You need the permission to read the data of {name} to see examples." if error.get("samples") else ""
    hint = hint or error.get("hint", "")
    return replace(refusal, column=error.get("column", ""), hint=hint, faults=faults).as_json()


def without_any_value(error: Mapping[str, Any]) -> str:
    """Return a refusal on one line, without any value, for logs, notices and runs."""
    refusal = Refusal.from_json(dict(error))
    return replace(without_values(replace(refusal, column=""), ("",)), hint=refusal.hint).one_line()


def must_not_tell(kind: str, arguments: Mapping[str, Any], table: TableSpec, masking: Masking) -> None:
    """Raise Refusal MASKED_COLUMN for a read whose selection of rows would reveal a masked value."""
    kind = rows_kind(kind, arguments)
    business_key = table.of_purpose("business_key")
    keys = masked_names(business_key, masking)
    # The text is searched in the columns of the key that are not masked.
    is_searched = bool(arguments.get("text")) and len(keys) == len(business_key)
    if keys and (is_searched or any(arguments.get(name) for name in _KEY_ARGUMENTS)):
        raise _refused(f"{', '.join(keys)} is masked for you, so rows cannot be found by it")
    chosen_by = RowSelection.from_arguments(arguments).columns if kind in _SELECTED else ()
    must_not_choose_by(chosen_by, {column.name for column in table.columns if column.key not in masking.shown})
    if kind == ORIGIN and any(column.key not in masking.shown for column in table.of_purpose("entity_key")):
        raise _refused("the key of the row is hashed for you, so its delivered rows cannot be found")
    is_dated = kind in _VERSION_READS or (kind == ORIGIN and arguments.get("at"))
    if is_dated and masked_names(table.of_purpose("started_at"), masking):
        raise _refused("versions are dated by a column that is masked for you")


def must_not_choose_by(columns: Iterable[str], masked: Collection[str]) -> None:
    """Raise Refusal MASKED_COLUMN if rows are chosen or ordered by a masked column."""
    if used := [name for name in columns if name in masked]:
        raise _refused(f"{', '.join(used)} is masked for you, so rows cannot be filtered or sorted by it")


def masked_names(columns: Collection[ColumnSpec], masking: Masking) -> list[str]:
    """Return the names of the columns that are masked for a reader."""
    return [column.name for column in columns if is_masked(column.name, column.key, masking)]


def is_masked(name: str, key: str | None, masking: Masking) -> bool:
    """Return True for a masked column; ``key`` is its stable key, None for a column without one."""
    if key is None:
        return name.lower() not in masking.shown_names
    return key not in (*masking.shown, *masking.hashed)


def _refused(message: str) -> Refusal:
    return Refusal(
        "MASKED_COLUMN",
        message,
        hint="Ask an administrator for the role of a steward, or find rows by the hash of their key.",
    )
