"""Set-up of a checkout: from a bare machine to a project that runs.

These modules run on the system's Python before the virtual environment exists, so they use the
standard library only and never import Django.
"""
