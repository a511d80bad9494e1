"""Benchmark of copies in PostgreSQL: the whole table and changed keys, beside Spark's JDBC writer."""
