"""Desired, applied and observed structure; how two of them are compared for drift."""
