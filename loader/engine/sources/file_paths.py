"""Expressions over the URIs of files that Spark gives."""

import re
from collections.abc import Sequence

from pyspark.sql import Column
from pyspark.sql import functions as F

from loader.domain.sources.folders import texts_of, value_of
from loader.domain.sources.provenance import is_same_in_uri
from loader.engine.sources.files import DeliveredFile


def decoded_path(uri: Column, files: Sequence[DeliveredFile]) -> Column:
    """Return the path of a file's URI."""
    if all(is_same_in_uri(file.path) for file in files):
        return uri
    return F.url_decode(F.replace(uri, F.lit("+"), F.lit("%2B")))


def folder_value(uri: Column, column: str, files: Sequence[DeliveredFile]) -> Column:
    """Return the value of a column in the names of the folders of a file."""
    spellings, texts = texts_of(column, (file.name for file in files))
    spelled = "|".join(map(re.escape, sorted(spellings)))
    text = F.regexp_extract(decoded_path(uri, files), f".*/(?:{spelled})=([^/]*)/", 1)
    changed = {text: value_of(text) for text in texts if value_of(text) != text}
    if not changed:
        return text
    pairs = [F.lit(part) for pair in changed.items() for part in pair]
    return F.when(text.isin(*changed), F.try_element_at(F.create_map(*pairs), text)).otherwise(text)
