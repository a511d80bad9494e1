"""Adjustable clock for started processes; the machine's own clock does not change.

The processes load a library that replaces all functions for the time of day, as used by Python, Java and SQLite;
monotonic clocks do not change. The library is compiled by the machine's C compiler.
"""

import os
import subprocess
from pathlib import Path

from elevata.bootstrap.programs import c_compiler
from tests.services.process import ServerProblem

SOURCE = Path(__file__).with_name("moved_clock.c")


class MovedClock:
    """Clock of the processes that are started with ``environment``."""

    def __init__(self, folder: Path) -> None:
        compiler = c_compiler()
        if compiler is None:
            raise ServerProblem("clocks of processes cannot be moved here: there is no C compiler (cc)")
        self._library, self._file = folder / "moved_clock.so", folder / "seconds_ahead"
        subprocess.run([compiler, "-O2", "-shared", "-fPIC", "-o", self._library, SOURCE], check=True)
        self.move(0)

    @property
    def environment(self) -> dict[str, str]:
        return {"LD_PRELOAD": str(self._library), "ELEVATA_TEST_CLOCK": str(self._file)}

    def move(self, seconds: int) -> None:
        """Set the clock's offset from the machine's time in seconds, which may be negative."""
        written = self._file.with_suffix(".new")
        written.write_text(str(seconds))
        os.replace(written, self._file)
