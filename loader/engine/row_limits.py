"""Numbers of rows up to which Spark works on a table in another way."""

# Up to the first size, the open rows of a table are rewritten instead of marked one by one. Up to the second, a
# comparison is one task, because splitting and shuffling would cost more (docs/operate/performance.md).
REWRITE_UP_TO_ROWS = 200_000
ONE_TASK_UP_TO_ROWS = 50_000
# Up to this number, changed rows of a large table (some 100 bytes each) are broadcast to the tasks that read it.
BROADCAST_UP_TO_ROWS = 1_000_000
