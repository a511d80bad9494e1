"""Kinds of load runs, and the limits that compaction follows.

``LoadRun.details["asked"]`` holds, by kind:

=============  ====================================================================================
history_batch  files: paths by kind of file; format, compression
revert         run_id: the run that is reverted in the dataset's history
prune          ended_before, archive
compact        nothing: crowded tables are found when the run is performed
accept         nothing: the table is accepted as it is when the run is performed
=============  ====================================================================================
"""

LOAD, HISTORY_BATCH, REVERT, PRUNE, COMPACT = "load", "history_batch", "revert", "prune", "compact"
ACCEPT = "accept"
# Kinds that only an identified user may request; what they did is sealed in a record.
GOVERNED = (HISTORY_BATCH, REVERT, PRUNE, ACCEPT)
# Kinds that bring rows: a later run must be dated later (rule 3), and they can be reverted.
BRINGING = (LOAD, HISTORY_BATCH)

# A table is crowded when one of its partitions has more than MOST_SMALL_FILES files smaller than
# SMALL_FILE_BYTES, or when rows that are marked as deleted, which every load still reads, come to
# more than MOST_DEAD_ROWS of the live ones. Compaction merges small files into files of at most
# COMPACTED_FILE_BYTES, and drops the deleted rows.
MOST_SMALL_FILES = 24
MOST_DEAD_ROWS = 0.5
SMALL_FILE_BYTES = 32 * 1024 * 1024
COMPACTED_FILE_BYTES = 128 * 1024 * 1024
