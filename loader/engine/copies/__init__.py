"""Copies of tables in other databases and folders."""
