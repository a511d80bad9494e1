#!/usr/bin/env python
"""Entry point of every command of the product."""

import os
import sys


def main() -> None:
    os.environ.setdefault("DJANGO_SETTINGS_MODULE", "elevata.settings")
    from django.core.management import execute_from_command_line

    from elevata.core.processes import collect_less

    collect_less()
    execute_from_command_line(sys.argv)


if __name__ == "__main__":
    main()
