"""Reference implementation of history in plain Python, for every policy; the Spark engine is tested against it.

A key's history is the fold of its events in order of time (``timeline``); a batch adds events (``table``). Batch
files are stored as delivered (``batch_files``). ``invariants`` hold for every history.
"""

from loader.domain.reference.invariants import violations
from loader.domain.reference.table import Header, ReferenceEngine

__all__ = ["Header", "ReferenceEngine", "violations"]
