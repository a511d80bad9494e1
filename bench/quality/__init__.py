"""Benchmark of quality checks."""
