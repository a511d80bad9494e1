"""Bodies that say only what is understood: a misspelt field is an error, not a wish that nobody heard."""

from collections.abc import Mapping
from typing import Any

from rest_framework import serializers

MESSAGE_LENGTH = 1000


class StrictSerializer(serializers.Serializer):
    """Refuses fields that it does not know, and those that can only be read."""

    def to_internal_value(self, data: Any) -> Any:
        if isinstance(data, Mapping):
            known = [name for name, field in self.fields.items() if not field.read_only]
            unknown = {
                str(name): [f"There is no such field; known are {', '.join(known)}."]
                for name in data
                if name not in known
            }
            if unknown:
                raise serializers.ValidationError(unknown, code="unknown_field")
            wrong = {
                name: ["A valid integer is required."]
                for name, field in self.fields.items()
                if isinstance(field, serializers.IntegerField)
                and isinstance(data.get(name), str)
                and not data[name].isascii()
            }
            if wrong:
                raise serializers.ValidationError(wrong, code="invalid")
        return super().to_internal_value(data)


class ChangeSerializer(StrictSerializer):
    """Fields of every write: its reason, for the change log."""

    changelog_message = serializers.CharField(
        required=False,
        allow_blank=True,
        max_length=MESSAGE_LENGTH,
        help_text="Why this is done; kept in the change log.",
    )


def both(reason: str, message: str) -> str:
    """A reason that a deed asks for and the message that came with it, as one: the log keeps both."""
    return ": ".join(said for said in (reason.strip(), message.strip()) if said)


class NothingSerializer(ChangeSerializer):
    """A deed that needs no more said than, perhaps, why."""
