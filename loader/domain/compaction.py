"""Limits of compaction.

A table is crowded if one of its partitions has more than MOST_SMALL_FILES files smaller than SMALL_FILE_BYTES, or if
its deleted rows, which every load still reads, exceed MOST_DEAD_ROWS of the live ones. Compaction merges small files
into files of at most COMPACTED_FILE_BYTES, and drops the deleted rows.
"""

MOST_SMALL_FILES = 24
MOST_DEAD_ROWS = 0.5
SMALL_FILE_BYTES = 32 * 1024 * 1024
COMPACTED_FILE_BYTES = 128 * 1024 * 1024
