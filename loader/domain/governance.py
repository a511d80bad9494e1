"""Kinds of runs, and what governed ones are bound by.

``LoadRun.details["asked"]`` holds, by kind:

=============  ====================================================================================
history_batch  files: paths by kind of file; format, compression
revert         run_id: the run whose part in the dataset's history is taken back
prune          ended_before, archive
compact        nothing: which tables are crowded is looked at when the run is performed
accept         nothing: the table is taken as it is when the run is performed
=============  ====================================================================================
"""

LOAD, HISTORY_BATCH, REVERT, PRUNE, COMPACT = "load", "history_batch", "revert", "prune", "compact"
ACCEPT = "accept"
# Kinds that a person has to ask for and answer for; what they did is sealed.
GOVERNED = (HISTORY_BATCH, REVERT, PRUNE, ACCEPT)
# Kinds that bring rows, so that what is dated later comes after them (rule 3), and that can be reverted.
BRINGING = (LOAD, HISTORY_BATCH)

# A table is crowded when one of its partitions has more than MOST_SMALL_FILES files smaller than
# SMALL_FILE_BYTES, or when rows that are marked as gone, which every load still reads over, come to
# more than MOST_DEAD_ROWS of those that are there. Compacting brings small files together, into files
# of at most COMPACTED_FILE_BYTES, and leaves the dead rows behind.
MOST_SMALL_FILES = 24
MOST_DEAD_ROWS = 0.5
SMALL_FILE_BYTES = 32 * 1024 * 1024
COMPACTED_FILE_BYTES = 128 * 1024 * 1024
