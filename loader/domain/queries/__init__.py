"""Queries over published names, and their results."""
