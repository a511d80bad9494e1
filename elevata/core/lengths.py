"""Greatest lengths of texts that users write, the same on pages and in the API."""

MAX_TEXT = 10_000
MAX_TAG = 100
MAX_TAGS = 100
# Data types in words: ``decimal(38,10)`` is among the longest.
MAX_TYPE = 40
# Short name of a source dataset: with layer and system before it, it is a table's name.
MAX_SHORT_NAME = 90
