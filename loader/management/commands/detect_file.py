"""Command that says how files are read."""

from argparse import ArgumentParser
from pathlib import Path
from typing import Any

from elevata.accounts.cli import FAILED, INVALID, CommandExit, ProductCommand
from elevata.core.words import counted
from loader.contract.refusals import Refusal
from loader.domain.sources.file_detection.model import Detected
from loader.domain.sources.file_detection.sentences import sentences
from loader.sources.file_detection import detect_files
from metadata.domain.sources.locations import Roots


class Command(ProductCommand):
    """Command to detect encoding, delimiter, header, formats and columns of files, without changing anything."""

    help = (
        "Detect how files are read: the options of a source dataset, the columns with their types, and what the "
        "values leave open. Nothing is changed. Ends with 0 if all could be read, 1 if some could not, 4 if there is "
        "no such file."
    )
    takes_user = False
    requires_system_checks = ()

    def arguments(self, parser: ArgumentParser) -> None:
        parser.add_argument("files", nargs="+", metavar="FILE", help="CSV, JSON, Excel, Parquet, … compressed or not")

    def run(self, *, files: list[str], **_: Any) -> None:
        missing = [file for file in files if not Path(file).is_file()]
        if missing:
            raise CommandExit(INVALID, f"{missing[0]}: no such file", "no_such_file")
        results = detect_files([Path(file) for file in files], Roots.of(("/",), folder=str(Path.cwd())))
        self.print_json([_document(file, result) for file, result in zip(files, results, strict=True)])
        failed = [result for result in results if isinstance(result, Refusal)]
        for file, result in zip(files, results, strict=True):
            self._describe(file, result)
        if failed:
            message = failed[0].one_line() if len(files) == 1 else f"{counted(len(failed), 'file')} could not be read"
            raise CommandExit(FAILED, message, failed[0].code)

    def _describe(self, file: str, result: Detected | Refusal) -> None:
        if isinstance(result, Refusal):
            self.say(f"{file}: {result.one_line()}")
            return
        self.say(f"{file}: {', '.join(sentences(result))}")
        for column in result.columns:
            personal = f"  likely personal: {column.personal}" if column.personal else ""
            self.say(f"  {column.name} → {column.target_name}: {column.type}{personal}")
        for question in result.questions:
            candidates = " or ".join("none" if value is None else repr(value) for value in question.candidates)
            self.say(f"  ? {question.option}: {candidates}; {question.reason}")


def _document(file: str, result: Detected | Refusal) -> dict[str, Any]:
    return {"file": file, "error": result.as_json()} if isinstance(result, Refusal) else result.as_json()
