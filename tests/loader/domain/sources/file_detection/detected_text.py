"""Detection of a text, as of the only piece of a file."""

from loader.domain.sources.file_detection.detect import detect_csv
from loader.domain.sources.file_detection.model import Detected, FileSample


def detected(text: str, name: str = "a.csv", encoding: str = "utf-8") -> Detected:
    return detect_csv(FileSample(name, text.encode(encoding)))
