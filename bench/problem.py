"""Errors of a benchmark for its user."""


class BenchProblem(Exception):
    """Benchmark error with a one-line message."""
