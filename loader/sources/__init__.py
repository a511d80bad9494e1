"""Access to outside systems from the web process: short, read-only, and only where an installation permits it.

Nothing here starts Spark. A load reads the same places through the runner; these reads help a user to describe a
source.
"""
