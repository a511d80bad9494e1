"""What a person is told when a benchmark cannot be run."""


class BenchProblem(Exception):
    """One line that says what is wrong."""
