"""Set-up of a checkout: from an empty machine to a running project.

These modules run on the system's Python before the virtual environment exists, so they use the standard library
only and never import Django.
"""
