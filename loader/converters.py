"""Parts of addresses."""

from django.urls.converters import StringConverter


class RunIdConverter(StringConverter):
    """What the loader takes as a run id, and nothing that a database could choke on."""

    regex = "[A-Za-z0-9][A-Za-z0-9._:+-]{0,99}"
