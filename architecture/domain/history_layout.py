"""What stands in a history's ends; what its own columns are called is ``metadata.domain.history_columns``'s."""

from metadata.domain.history_columns import open_end
from metadata.domain.history_policy import BATCH_FILES, HistoryPolicy

__all__ = ["ends_inclusive", "open_end"]


def ends_inclusive(policy: HistoryPolicy) -> bool:
    """Whether an end is the last millisecond that a version holds (rule 21), not the first it does not."""
    return policy.input == BATCH_FILES
