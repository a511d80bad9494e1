"""Errors of a benchmark, for its user."""


class BenchProblem(Exception):
    """One line that says what is wrong."""
