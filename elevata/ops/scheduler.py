"""Times at which the scheduler runs."""

from datetime import datetime

from celery.schedules import schedule


class SteadySchedule(schedule):
    """An interval that goes on when the clock is set back; Celery's waits until its last run is past again."""

    def is_due(self, last_run_at: datetime) -> tuple[bool, float]:
        """Return whether to run now, and in how many seconds to ask again."""
        now = self.maybe_make_aware(self.now())
        return super().is_due(min(self.maybe_make_aware(last_run_at), now))
