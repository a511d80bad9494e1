"""dbt project of an engine: dbt-core with dbt-spark, method ``session``, run in process and warm."""

from pathlib import Path

PROJECT = """
name: bench
version: "1.0"
profile: bench
snapshot-paths: [snapshots]
model-paths: [models]
macro-paths: [macros]
target-path: target
log-path: logs
flags:
  send_anonymous_usage_stats: false
  use_colors: false
  partial_parse: true
"""
PROFILE = """
bench:
  target: bench
  outputs:
    bench:
      type: spark
      method: session
      host: none
      schema: bench
      threads: {threads}
"""


class DbtProject:
    """Project in a folder; ``files`` are its texts by path. ``threads`` models or snapshots run at a time."""

    def __init__(self, folder: Path, files: dict[str, str], *, threads: int) -> None:
        from dbt.cli.main import dbtRunner

        self.folder = folder
        files = files | {"dbt_project.yml": PROJECT, "profiles.yml": PROFILE.format(threads=threads)}
        for path, text in files.items():
            (folder / path).parent.mkdir(parents=True, exist_ok=True)
            (folder / path).write_text(text)
        self._dbt = dbtRunner()

    def invoke(self, command: str) -> None:
        """Run a command of dbt. Raise RuntimeError with the first error."""
        folder = str(self.folder)
        done = self._dbt.invoke(["--quiet", command, "--project-dir", folder, "--profiles-dir", folder])
        if not done.success:
            failed = [result.message for result in getattr(done.result, "results", ()) if result.status != "success"]
            raise RuntimeError(" ".join(str(failed[0] if failed else done.exception).split()))
