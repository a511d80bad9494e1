"""Maximum lengths of texts that users enter, for pages and the API."""

MAX_TEXT = 10_000
MAX_TAG = 100
MAX_TAGS = 100
# Data types in words: ``decimal(38,10)`` is among the longest.
MAX_TYPE = 40
# Short name of a source dataset; the table's name is the layer, the system and the short name.
MAX_SHORT_NAME = 90
