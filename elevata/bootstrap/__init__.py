"""Set-up of a checkout on an empty machine.

These modules run with the system's Python before the virtual environment exists, so they import only the standard
library, and never Django.
"""
