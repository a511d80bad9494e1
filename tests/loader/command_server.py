"""Program that runs commands of the product one after another, so that only the first one pays for the start.

A line of its input is a command: JSON with arguments and a personal token. A line of its output is the result: JSON
with exit code, output and errors.
"""

import io
import json
import os
import sys
from contextlib import redirect_stderr, redirect_stdout
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[2]))


def main() -> None:
    from django.core.management import execute_from_command_line

    results = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)
    for line in sys.stdin:
        arguments, token = json.loads(line)
        os.environ["ELEVATA_TOKEN"] = token
        # As a pipe is read in text mode: every line ends with one line feed.
        output, errors = io.StringIO(newline=None), io.StringIO(newline=None)
        code = 0
        with redirect_stdout(output), redirect_stderr(errors):
            try:
                execute_from_command_line(["manage.py", *arguments])
            except SystemExit as end:
                code = end.code or 0
        results.write(json.dumps([code, output.getvalue(), errors.getvalue()]) + "\n")
        results.flush()


if __name__ == "__main__":
    os.environ.setdefault("DJANGO_SETTINGS_MODULE", "elevata.settings")
    main()
