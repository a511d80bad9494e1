"""URL path converters."""

from django.urls.converters import StringConverter


class RunIdConverter(StringConverter):
    """Converter of load run ids: 1 to 100 letters, digits and ``._:+-``, the first a letter or digit.

    The pattern keeps characters out of queries that a database refuses.
    """

    regex = "[A-Za-z0-9][A-Za-z0-9._:+-]{0,99}"
