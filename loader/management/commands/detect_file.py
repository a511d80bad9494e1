"""Command that detects how files are read."""

import json
from argparse import ArgumentParser
from pathlib import Path
from typing import Any

from elevata.accounts.cli import FAILED, INVALID, CommandExit, ProductCommand, printable
from elevata.core.errors import as_sentence
from elevata.core.words import counted
from loader.contract.refusals import Refusal
from loader.domain.sources.file_detection.model import Detected
from loader.domain.sources.file_detection.questions import asked_questions
from loader.domain.sources.file_detection.sentences import description
from loader.sources.file_detection import detect_files, detection_json
from metadata.domain.sources.locations import Roots


class Command(ProductCommand):
    """Command to detect encoding, delimiter, header, formats and columns of files, without changing anything."""

    help = (
        "Detect how files are read: the options of a source dataset, the columns with their types, and what the "
        "values leave open. Nothing is changed. Ends with 0 if all could be read, 1 if some could not, 4 if a name is "
        "not that of a file."
    )
    takes_user = False
    requires_system_checks = ()

    def arguments(self, parser: ArgumentParser) -> None:
        parser.add_argument("files", nargs="+", metavar="FILE", help="CSV, JSON, Excel, Parquet, … compressed or not")

    def run(self, *, files: list[str], **_: Any) -> None:
        results = detect_files(files, Roots.of(("/",), folder=str(Path.cwd())))
        self.print_json([detection_json(file, result) for file, result in zip(files, results, strict=True)])
        failed = [result for result in results if isinstance(result, Refusal)]
        for file, result in zip(files, results, strict=True):
            if isinstance(result, Detected):
                self._describe(file, result)
            elif len(files) > 1:
                line = result.one_line()
                line = line if line.startswith(file) else f"{file}: {line}"
                self.stderr.write(printable(line, self.stderr), style_func=str)
        if failed:
            is_missing = any(refusal.code == "MISSING_FILE" for refusal in failed)
            several = f"{len(failed)} of {counted(len(files), 'file')} could not be read"
            raise CommandExit(
                INVALID if is_missing else FAILED,
                failed[0].one_line() if len(files) == 1 else several,
                "no_such_file" if is_missing else failed[0].code,
            )

    def _describe(self, file: str, result: Detected) -> None:
        self.say(f"{file}: {description(result)}")
        for column in result.columns:
            personal = f"  likely personal: {column.personal}" if column.personal else ""
            self.say(f"  {column.name} → {column.target_name}: {column.type}{personal}")
        for note in result.all_notes:
            self.say(f"  {note}")
        for question in asked_questions(result.questions):
            self.say(f"  {question.text} {as_sentence(question.reason)}")
            for place, choice in enumerate(question.choices):
                given = ", ".join(f"{name}: {_shown(value)}" for name, value in choice.options.items())
                example = f": {choice.example}" if choice.example else ""
                self.say(f"    {choice.label}{' (likeliest)' if not place else ''}{example}  [{given}]")


def _shown(value: Any) -> str:
    return "default" if value is None else json.dumps(value, ensure_ascii=False)
