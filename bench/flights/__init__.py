"""Benchmark of the models of examples/flights, in turns with dbt."""
