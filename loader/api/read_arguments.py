"""Arguments of reads of the warehouse, as requests give them."""

from datetime import UTC, datetime
from typing import Any

from django.utils.dateparse import parse_datetime
from rest_framework import serializers

from architecture.domain.tables import TableSpec
from elevata.api.requests import ChangeSerializer
from loader.domain.queries.answers import COMPARE, DESCENDANTS, EXPORT, IN_PARTS, MOST_ROWS, rows_kind
from loader.domain.queries.comparison import DATES, ENVIRONMENTS, WAYS, Comparison
from loader.domain.queries.row_selection import COMPARISONS, LONGEST_TEXT, MOST_OFFSET, RowSelection
from loader.domain.queries.run_changes import OPERATIONS
from loader.services.reads.manifests import checked_comparison, read_table
from metadata.domain import types
from metadata.models import TargetDataset

_SELECTION = tuple(name for name in RowSelection.__dataclass_fields__ if name != "failing")
# Arguments of each kind of read.
TAKES = {
    "sample": ("newest", "failing", *_SELECTION),
    "key_search": ("text", "after"),
    "versions": ("entity_key", "business_key"),
    "as_of": ("at", "known_at", "text", "after", *_SELECTION),
    "changes": ("run_id", "op", "after", *_SELECTION),
    "origin": ("entity_key", "at"),
    DESCENDANTS: ("run_id", "file", "row"),
    EXPORT: ("failing", *_SELECTION, "at", "known_at", "text", "run_id", "op"),
    COMPARE: tuple(Comparison.__dataclass_fields__),
    "quality": ("check",),
    "quarantine": ("run_id",),
}
KINDS = tuple((kind, kind) for kind in TAKES)
# Arguments that a kind cannot do without, and those that have no effect without another one of a kind.
_NEEDS = {
    "as_of": ("at",),
    "changes": ("run_id",),
    "origin": ("entity_key",),
    DESCENDANTS: ("run_id", "file", "row"),
    COMPARE: ("by", "base"),
}
_WITH = {"comparison": "column", "value": "column", "descending": "sort"}
_WITH_OF_KIND = {EXPORT: {"known_at": "at", "text": "at", "op": "run_id"}}
_COMMON = ("dataset", "kind", "limit", "changelog_message")
_LONGEST = 1000


class _Key(serializers.DictField):
    """Columns of the business key and their values, as text."""

    child = serializers.CharField(max_length=_LONGEST, allow_blank=True, trim_whitespace=False)


class QuestionSerializer(ChangeSerializer):
    """A read of a dataset's table, or of its history: fields that its kind does not take are refused."""

    dataset = serializers.SlugRelatedField(slug_field="key", queryset=TargetDataset.objects.select_related("schema"))
    kind = serializers.ChoiceField(choices=KINDS)
    limit = serializers.IntegerField(required=False, default=100, min_value=1, max_value=MOST_ROWS)
    newest = serializers.BooleanField(required=False, help_text="sample: what was loaded last first.")
    find = serializers.CharField(
        required=False, max_length=LONGEST_TEXT, help_text="sample, as_of, changes, export: text in any column."
    )
    column = serializers.CharField(required=False, max_length=LONGEST_TEXT, help_text="Column to compare with value.")
    comparison = serializers.ChoiceField(
        required=False, choices=tuple(COMPARISONS.items()), help_text="How column and value compare."
    )
    value = serializers.CharField(
        required=False, max_length=LONGEST_TEXT, trim_whitespace=False, help_text="Value to compare with."
    )
    sort = serializers.CharField(required=False, max_length=LONGEST_TEXT, help_text="Column to sort by.")
    descending = serializers.BooleanField(required=False, help_text="Highest value first.")
    offset = serializers.IntegerField(
        required=False, min_value=0, max_value=MOST_OFFSET, help_text="Number of rows or keys that are left out."
    )
    failing = serializers.UUIDField(
        required=False, help_text="sample, export: key of a quality check of the dataset; the rows that fail it."
    )
    check = serializers.UUIDField(
        required=False, help_text="quality: key of the check to run; without it, all active checks of the dataset."
    )
    text = serializers.CharField(
        required=False, allow_blank=True, max_length=200, help_text="key_search, as_of: text in a column of the key."
    )
    entity_key = serializers.RegexField(
        r"\A[0-9a-f]{64}\Z", required=False, help_text="versions, origin: the key's hash."
    )
    business_key = _Key(required=False, help_text="versions: the key by its columns, instead of its hash.")
    at = serializers.CharField(
        required=False, max_length=50, help_text="as_of, origin, export: rows valid then; a time, or a number."
    )
    known_at = serializers.DateTimeField(
        required=False, default_timezone=UTC, help_text="as_of: leaves out what was loaded later, by the clock."
    )
    run_id = serializers.CharField(
        required=False,
        max_length=100,
        help_text="changes, export: what this load run did; quarantine: rows of its delivery.",
    )
    op = serializers.ChoiceField(
        required=False,
        choices=tuple(OPERATIONS.items()),
        help_text="changes, export: inserted, updated, deleted, or came back after it was gone.",
    )
    file = serializers.CharField(
        required=False, max_length=4000, help_text="descendants: file of the row, or partition of its topic."
    )
    row = serializers.IntegerField(
        required=False,
        min_value=0,
        max_value=2**63 - 1,
        help_text="descendants: number of the row, or offset.",
    )
    by = serializers.ChoiceField(
        required=False,
        choices=tuple(WAYS.items()),
        help_text="compare: dates of a history, Delta versions of its table, or environments.",
    )
    base = serializers.CharField(
        required=False, max_length=50, help_text="compare: the side that rows are compared with; an environment's name."
    )
    other = serializers.CharField(
        required=False, max_length=50, help_text="compare: the other side; by environments, it is this one."
    )
    after = _Key(required=False, help_text=f"{', '.join(IN_PARTS)}: go on after this key; `answer.next` says it.")

    def validate(self, attrs: dict[str, Any]) -> dict[str, Any]:
        kind = attrs["kind"]
        known = {*_COMMON, *TAKES[kind]}
        wrong = {name: [f"A question of kind {kind} does not take it."] for name in attrs if name not in known}
        for needed in _missing(kind, attrs):
            wrong[needed] = [f"A question of kind {kind} needs it."]
        for name, other in (_WITH | _WITH_OF_KIND.get(kind, {})).items():
            if name in known and attrs.get(name) and not attrs.get(other):
                wrong[other] = [f"{name} has no effect without it."]
        if kind == "versions" and ("entity_key" in attrs) == ("business_key" in attrs):
            wrong["entity_key"] = ["Say either an entity_key or a business_key."]
        if wrong:
            raise serializers.ValidationError(wrong)
        return attrs


def _missing(kind: str, attrs: dict[str, Any]) -> list[str]:
    """Return the names of required arguments that a read of this kind lacks."""
    needed = _NEEDS.get(kind, ())
    if kind == COMPARE and attrs.get("by") != ENVIRONMENTS:
        needed += ("other",)
    return [name for name in needed if attrs.get(name) in (None, "")]


def arguments_of(fields: dict[str, Any], user: Any) -> dict[str, Any]:
    """Return the arguments for ``loader.engine.queries.reads``. Raise Refusal if the dataset has no table to read."""
    table = read_table(fields["dataset"], rows_kind(fields["kind"], fields))
    for name in ("business_key", "after"):
        if name in fields:
            _check_key(name, fields[name], table)
    given = {name: fields[name] for name in TAKES[fields["kind"]] if name in fields}
    arguments = {name: value for name, value in given.items() if value is not False and value not in ("", {})}
    arguments |= {name: str(arguments[name]) for name in ("failing", "check") if name in arguments}
    if "at" in arguments:
        arguments["at"] = _instant(arguments["at"], table)
    if "known_at" in arguments:
        arguments["known_at"] = arguments["known_at"].astimezone(UTC).isoformat()
    if fields["kind"] == COMPARE:
        is_number = fields["by"] == DATES and _is_number(table)
        return checked_comparison(user, fields["dataset"], arguments, by_number=is_number)
    return arguments | ({"exact": True} if fields["kind"] == EXPORT else {"limit": fields["limit"]})


def _check_key(name: str, values: dict[str, str], table: TableSpec) -> None:
    columns = [column.name for column in table.of_purpose("business_key")]
    if not columns or set(values) != set(columns):
        message = f"Must name the columns of the business key, which are {', '.join(columns) or 'none'}."
        raise serializers.ValidationError({name: [message]})


def _is_number(table: TableSpec) -> bool:
    """Return True if versions are dated by numbers."""
    return types.parse(table.column("started_at").type).name in (types.INTEGER, types.BIGINT)


def _instant(text: str, table: TableSpec) -> str:
    """Return the start of versions as text: a time in ISO 8601 (UTC without a zone), or a number."""
    if _is_number(table):
        sign, digits = text[:1] == "-", text.lstrip("-")
        if digits.isascii() and digits.isdecimal() and len(digits) < 20 and abs(int(digits)) < 2**63:
            return f"{'-' if sign else ''}{int(digits)}"
        raise serializers.ValidationError({"at": ["Versions are dated by a whole number here."]})
    try:
        time = parse_datetime(text) or datetime.fromisoformat(text)
        return (time.replace(tzinfo=UTC) if time.tzinfo is None else time.astimezone(UTC)).isoformat()
    except (ValueError, OverflowError):
        raise serializers.ValidationError({"at": ["Must be a time like 2026-11-21T08:15:00Z."]}) from None
