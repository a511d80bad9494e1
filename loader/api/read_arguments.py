"""Serializers of read requests, and their arguments."""

from datetime import UTC, datetime
from typing import Any

from django.utils.dateparse import parse_datetime
from rest_framework import serializers

from architecture.domain.states.tables import TableSpec
from loader.domain.queries.result_rows import OPERATIONS
from loader.domain.sources.csv_export import IN_PARTS, MOST_ROWS
from loader.services.queries.reads import read_table
from metadata.api.strict_fields import ChangeSerializer
from metadata.domain import types
from metadata.models import TargetDataset

# Arguments of each kind of read; required ones come first.
TAKES = {
    "sample": ("newest",),
    "key_search": ("text", "after"),
    "versions": ("entity_key", "business_key"),
    "as_of": ("at", "known_at", "text", "after"),
    "changes": ("run_id", "op", "after"),
}
KINDS = tuple((kind, kind) for kind in TAKES)
_NEEDS = {"as_of": "at", "changes": "run_id"}
_EVERY = ("dataset", "kind", "limit", "changelog_message")
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
    text = serializers.CharField(
        required=False, allow_blank=True, max_length=200, help_text="key_search, as_of: how the key begins."
    )
    entity_key = serializers.RegexField(r"\A[0-9a-f]{64}\Z", required=False, help_text="versions: the key's hash.")
    business_key = _Key(required=False, help_text="versions: the key by its columns, instead of its hash.")
    at = serializers.CharField(
        required=False, max_length=50, help_text="as_of: rows valid then; a time, or a number where versions have one."
    )
    known_at = serializers.DateTimeField(
        required=False, default_timezone=UTC, help_text="as_of: leaves out what was loaded later, by the clock."
    )
    run_id = serializers.CharField(required=False, max_length=100, help_text="changes: what this load run did.")
    op = serializers.ChoiceField(
        required=False,
        choices=tuple(OPERATIONS.items()),
        help_text="changes: inserted, updated, deleted, or came back after it was gone.",
    )
    after = _Key(required=False, help_text=f"{', '.join(IN_PARTS)}: go on after this key; `answer.next` says it.")

    def validate(self, attrs: dict[str, Any]) -> dict[str, Any]:
        kind = attrs["kind"]
        taken = {*_EVERY, *TAKES[kind]}
        wrong = {name: [f"A question of kind {kind} does not take it."] for name in attrs if name not in taken}
        needed = _NEEDS.get(kind)
        if needed and not attrs.get(needed):
            wrong[needed] = [f"A question of kind {kind} needs it."]
        if kind == "versions" and ("entity_key" in attrs) == ("business_key" in attrs):
            wrong["entity_key"] = ["Say either an entity_key or a business_key."]
        if wrong:
            raise serializers.ValidationError(wrong)
        return attrs


def arguments_of(asked: dict[str, Any]) -> dict[str, Any]:
    """Return the arguments for ``loader.spark.queries.reads``. Raise Refusal where the dataset has no such table."""
    table = read_table(asked["dataset"], asked["kind"])
    for name in ("business_key", "after"):
        if name in asked:
            _check_key(name, asked[name], table)
    found = {name: asked[name] for name in TAKES[asked["kind"]] if asked.get(name) not in (None, "", {}, False)}
    if "at" in found:
        found["at"] = _instant(found["at"], table)
    if "known_at" in found:
        found["known_at"] = found["known_at"].astimezone(UTC).isoformat()
    return found | {"limit": asked["limit"]}


def _check_key(name: str, given: dict[str, str], table: TableSpec) -> None:
    columns = [column.name for column in table.of_purpose("business_key")]
    if not columns or set(given) != set(columns):
        said = f"Must name the columns of the business key, which are {', '.join(columns) or 'none'}."
        raise serializers.ValidationError({name: [said]})


def _instant(text: str, table: TableSpec) -> str:
    """Return an instant as versions are dated: in ISO 8601, UTC unless it says otherwise, or a number as it is."""
    if types.parse(table.column("started_at").type).name in (types.INTEGER, types.BIGINT):
        sign, digits = text[:1] == "-", text.lstrip("-")
        if digits.isascii() and digits.isdecimal() and len(digits) < 20 and abs(int(digits)) < 2**63:
            return f"{'-' if sign else ''}{int(digits)}"
        raise serializers.ValidationError({"at": ["Versions are dated by a whole number here."]})
    try:
        found = parse_datetime(text) or datetime.fromisoformat(text)
        return (found.replace(tzinfo=UTC) if found.tzinfo is None else found.astimezone(UTC)).isoformat()
    except (ValueError, OverflowError):
        raise serializers.ValidationError({"at": ["Must be a time like 2026-11-21T08:15:00Z."]}) from None
