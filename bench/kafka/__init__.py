"""Benchmark of a topic: change events folded into a history, beside a plain Spark job."""
