"""Converters of URL paths. Importing the module registers them, once, for the patterns that use them."""

from django.urls import register_converter
from django.urls.converters import IntConverter


class NumberConverter(IntConverter):
    """Converter of primary keys, without numbers that no database column holds: SQLite raises an error for these."""

    regex = "[0-9]{1,18}"


register_converter(NumberConverter, "number")
