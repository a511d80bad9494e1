"""Reads of the warehouse and of sources: requests, permissions, queries, results."""
