"""Benchmark of the intake of a PostgreSQL table: whole into raw, and from a watermark on into history."""
