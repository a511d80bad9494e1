"""Questions about how a file is read, as sentences with choices, for pages and the command."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from loader.domain.sources.file_detection.model import Question
from loader.domain.sources.file_detection.sentences import NEGATIVE_EXAMPLES, counted_lines, shown_format, sign_name


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


# Questions that the answer to another one decides, too, if both have as many candidates for the same reason.
_FOLLOWING = {
    "decimal_separator": "thousands_separator",
    "true_words": "false_words",
    "header": "skip_lines",
    "header_lines": "skip_lines",
}


def asked_questions(questions: Sequence[Question]) -> list[AskedQuestion]:
    """Return the questions as users read them. One that follows from the answer to another one is part of that."""
    followed = {id(question): _following(question, questions) for question in questions}
    parts = [part for part in followed.values() if part is not None]
    return [
        AskedQuestion(question.option, _text(question), question.reason, _choices(question, followed[id(question)]))
        for question in questions
        if question not in parts
    ]


def _following(question: Question, questions: Sequence[Question]) -> Question | None:
    """Return the question that the answer to this one decides, too."""
    name = _FOLLOWING.get(question.option)
    for other in questions:
        is_paired = other.option == name and len(other.candidates) == len(question.candidates)
        if is_paired and (name == "thousands_separator" or other.reason == question.reason):
            return other
    return None


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
    "first_year": "Which century do years of two digits belong to?",
    "negative_numbers": "Are these negative numbers?",
    "true_words": "Which word means true?",
    "false_words": "Which word means false?",
    "null_string": "Which text stands for no value?",
    "skip_lines": "How many lines are before the header?",
    "ignored_columns": "Are columns without a name and values left out?",
}


def _label(option: str, candidate: Any) -> str:
    match option:
        case "header":
            return "Yes, they are names" if candidate else "No, they are values"
        case "header_lines" | "skip_lines":
            return counted_lines(candidate)
        case "true_words" | "false_words" | "null_string" if not candidate:
            return "None, the values are texts"
        case "ignored_columns":
            return f"Yes, leave out {candidate}" if candidate else "No, read them"
        case "footer_lines":
            return f"No, leave out {counted_lines(candidate)}" if candidate else "Yes, read them"
        case "quotes_inside":
            return "Yes, keep them" if candidate == "keep" else "No, refuse such records"
        case "first_year":
            return f"{candidate} to {candidate + 99}"
        case "negative_numbers":
            return f"Yes, {NEGATIVE_EXAMPLES[candidate]} is -5" if candidate else "No, they are texts"
        case "quote":
            return f"Yes, {candidate}" if candidate else "No"
        case "date_format" | "timestamp_format":
            return shown_format(candidate) if candidate else "In the standard way, or as other values"
        case "delimiter" | "decimal_separator" | "thousands_separator":
            return sign_name(candidate) if candidate else "None"
    return "None" if candidate is None else str(candidate).strip()
