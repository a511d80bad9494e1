"""Access to outside systems from the web process: short, read-only, and only where an installation allows it.

Nothing here starts Spark. A load reads the same places through the runner; what is read here helps a
user to describe a source.
"""
