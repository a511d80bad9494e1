"""Access to source systems from the web process: short, read-only, and limited to permitted folders and hosts.

This package never starts Spark. It helps a user to describe a source; a load reads the same files and tables through
the runner.
"""
