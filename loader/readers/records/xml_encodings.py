"""Text of XML documents in the encoding that their beginning shows or declares."""

import codecs
import re
from collections.abc import Iterator

from loader.contract.refusals import Refusal

# Beginnings of documents in encodings that are no superset of ASCII, longer ones first.
_MARKS = (
    (codecs.BOM_UTF32_LE, "utf-32"),
    (codecs.BOM_UTF32_BE, "utf-32"),
    (codecs.BOM_UTF8, "utf-8-sig"),
    (codecs.BOM_UTF16_LE, "utf-16"),
    (codecs.BOM_UTF16_BE, "utf-16"),
    (b"<\0\0\0", "utf-32-le"),
    (b"\0\0\0<", "utf-32-be"),
    (b"<\0", "utf-16-le"),
    (b"\0<", "utf-16-be"),
)
_EBCDIC = b"\x4c\x6f\xa7\x94"  # <?xm
_DECLARED = re.compile(r"""<\?xml[^>]*?\sencoding\s*=\s*["']([A-Za-z][A-Za-z0-9._-]*)["']""")
_NO_CHARACTER_SETS = ("utf-7", "unicode-escape", "raw-unicode-escape", "idna", "punycode", "undefined")
_BEGINNING = 200  # bytes


def decoded(pieces: Iterator[bytes], shown: str) -> Iterator[str]:
    """Yield the text of a document. Raise Refusal WRONG_ENCODING."""
    before, first = 0, b""
    for piece in pieces:
        first += piece
        if len(first) >= _BEGINNING:
            break
    encoding = _encoding_of(first, shown)
    decoder = codecs.getincrementaldecoder(encoding)()
    try:
        yield decoder.decode(first)
        before = len(first)
        for piece in pieces:
            yield decoder.decode(piece)
            before += len(piece)
        yield decoder.decode(b"", final=True)
    except UnicodeError as error:
        at = before + error.start if isinstance(error, UnicodeDecodeError) else before
        raise Refusal(
            "WRONG_ENCODING",
            f"{shown}: cannot be decoded as {encoding}, about byte {at + 1:,}",
            file=shown,
            hint="The XML declaration names the encoding, by default UTF-8: deliver the document in this encoding.",
        ) from None


def _encoding_of(beginning: bytes, shown: str) -> str:
    """Return the encoding that a document shows or declares. Raise Refusal WRONG_ENCODING for an unknown one."""
    for mark, encoding in _MARKS:
        if beginning.startswith(mark):
            return encoding
    as_text = "cp037" if beginning.startswith(_EBCDIC) else "latin-1"
    match = _DECLARED.match(beginning[:_BEGINNING].decode(as_text).lstrip())
    name = match[1] if match else "utf-8"
    try:
        codec = codecs.lookup(name)
        "<".encode(codec.name)  # LookupError for a codec of bytes
        if codec.name not in _NO_CHARACTER_SETS and not codec.name.startswith(("utf-16", "utf-32")):
            return codec.name
    except LookupError:
        pass
    raise Refusal(
        "WRONG_ENCODING",
        f"{shown}: declares the encoding {name}, which is unknown or not the one of its beginning",
        file=shown,
        hint="Deliver the document in UTF-8, with a declaration that says so.",
    )
