"""History, every policy, in plain Python: what the Spark engine must do, and is tested against.

A key's history is the fold of its events in order of time (``timeline``); a batch adds events
(``arrivals``). Batch files are kept as they say it (``batch_files``). ``invariants`` says what is
true of every history.
"""

from loader.domain.reference.invariants import violations
from loader.domain.reference.table import Header, ReferenceEngine

__all__ = ["Header", "ReferenceEngine", "violations"]
