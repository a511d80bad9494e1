"""Fields of a scope of datasets in requests."""

from rest_framework import serializers

from metadata.domain.scope import REQUESTED
from metadata.domain.selection import MAX_WORDS


class ScopeFieldsSerializer(serializers.Serializer):
    """Requested datasets: all, those of a schema, one by its name (schema.name), or those that words select."""

    kind = serializers.ChoiceField(choices=REQUESTED)
    name = serializers.CharField(
        allow_blank=True,
        required=False,
        default="",
        max_length=MAX_WORDS,
        help_text="Of a selection its words, separated by spaces: names, patterns, tags, layers, with plus signs.",
    )
    target_only = serializers.BooleanField(
        required=False, default=False, help_text="Without the datasets that the requested ones read."
    )
    exclude = serializers.CharField(
        allow_blank=True,
        required=False,
        default="",
        max_length=MAX_WORDS,
        help_text="Words of datasets that a selection leaves out.",
    )
