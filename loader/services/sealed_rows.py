"""Rules for the seals of schedules and saved queries."""

from elevata.audit.services.row_seals import Sealed
from loader.models import SavedQuery, Schedule

# The scheduler moves the clock on without an entry in the change log.
_CLOCK = ("next_at", "last_due_at", "outcome", "remark", "waiting", "last_delivery", "last_run_id")
SEALED = {Schedule: Sealed(unsealed=frozenset(_CLOCK)), SavedQuery: Sealed()}
