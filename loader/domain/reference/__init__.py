"""Reference implementation of history in plain Python, for every policy; the Spark engine is tested against it.

The history of a key is computed from its events in order of time (``timeline``); a batch adds events (``table``).
Versions of batch files are stored as delivered (``batch_files``). ``invariants`` are those of every history.
"""

from loader.domain.reference.invariants import violations
from loader.domain.reference.table import Header, ReferenceEngine

__all__ = ["Header", "ReferenceEngine", "violations"]
