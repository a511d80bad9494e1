"""Values at the ends of a history's intervals. ``metadata.domain.history_columns`` has the columns' names."""

from metadata.domain.history_columns import open_end
from metadata.domain.history_policy import BATCH_FILES, HistoryPolicy

__all__ = ["ends_inclusive", "open_end"]


def ends_inclusive(policy: HistoryPolicy) -> bool:
    """Return whether an end is the last millisecond of a version (rule 21), not the first after it."""
    return policy.input == BATCH_FILES
