"""Converters of URL paths."""

from django.urls.converters import IntConverter


class NumberConverter(IntConverter):
    """Converter of primary keys, without numbers that no database column holds: SQLite raises an error for these."""

    regex = "[0-9]{1,18}"
