"""Questions about how a file is read, as sentences with choices, for pages and the command."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from loader.domain.sources.file_detection.model import Question
from loader.domain.sources.file_detection.sentences import counted_lines, shown_format, sign_name


@dataclass(frozen=True)
class Choice:
    """Answer to a question: its label, an example from the file, and the options that it sets (None: the default)."""

    label: str
    options: Mapping[str, Any]
    example: str = ""


@dataclass(frozen=True)
class AskedQuestion:
    """Question as users read it; the first of its choices is the likeliest. ``reason`` is why it is asked."""

    option: str
    text: str
    reason: str
    choices: tuple[Choice, ...] = field(default=())


def asked_questions(questions: Sequence[Question]) -> list[AskedQuestion]:
    """Return the questions as users read them. One that follows from the answer to another one is part of that."""
    by_option = {question.option: question for question in questions}
    result = []
    for question in questions:
        decimals = by_option.get("decimal_separator")
        if question.option == "thousands_separator" and decimals is not None:
            continue
        following = by_option.get("thousands_separator") if question is decimals else None
        result.append(AskedQuestion(question.option, _text(question), question.reason, _choices(question, following)))
    return result


def _choices(question: Question, following: Question | None) -> tuple[Choice, ...]:
    examples = question.examples or ("",) * len(question.candidates)
    choices = []
    for place, (candidate, example) in enumerate(zip(question.candidates, examples, strict=True)):
        options = {question.option: candidate}
        if following is not None:
            options[following.option] = following.candidates[place]
        choices.append(Choice(_label(question.option, candidate), options, example))
    return tuple(choices)


def _text(question: Question) -> str:
    return _TEXTS.get(question.option, f"Which {question.option.replace('_', ' ')} does the file have?")


_TEXTS = {
    "encoding": "Which character set is the file written in?",
    "delimiter": "Which sign separates the fields?",
    "quote": "Are there quotes around fields?",
    "quotes_inside": "Are quotes inside of a field part of its value?",
    "header": "Does the first line have the names of the columns?",
    "header_lines": "How many lines does the header have?",
    "footer_lines": "Are the last lines records?",
    "decimal_separator": "Which sign comes before the decimals?",
    "thousands_separator": "Which sign groups the digits of large numbers?",
    "date_format": "How are dates written?",
    "timestamp_format": "How are times with a date written?",
    "true_words": "Which word means true?",
}


def _label(option: str, candidate: Any) -> str:
    match option:
        case "header":
            return "Yes, they are names" if candidate else "No, they are values"
        case "header_lines":
            return counted_lines(candidate)
        case "footer_lines":
            return f"No, leave out {counted_lines(candidate)}" if candidate else "Yes, read them"
        case "quotes_inside":
            return "Yes, keep them" if candidate == "keep" else "No, refuse such records"
        case "quote":
            return f"Yes, {candidate}" if candidate else "No"
        case "date_format" | "timestamp_format":
            return shown_format(candidate) if candidate else "In the standard way, or as other values"
        case "delimiter" | "decimal_separator" | "thousands_separator":
            return sign_name(candidate) if candidate else "None"
    return str(candidate)
