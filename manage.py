#!/usr/bin/env python
"""Entry point of every command of the product in a checkout."""

from elevata.command_line import main

if __name__ == "__main__":
    main()
