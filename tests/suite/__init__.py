"""Runs of the suite: passes, distribution among processes, durations, second tries."""
