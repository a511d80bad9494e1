"""Looking at outside systems from the web process: short, read-only, and only where an installation allows it.

Nothing here starts Spark. A load reads the same places through the runner; what is told here is for a
person who describes a source.
"""
