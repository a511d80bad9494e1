"""Pages of load and maintenance runs, and of their schedules."""
