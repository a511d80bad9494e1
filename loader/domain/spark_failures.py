"""Known causes of Spark failures, recognised in the chain of exceptions."""

import re
import signal
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass

from elevata.core.installation import user_command
from loader.contract.refusals import Refusal


@dataclass(frozen=True)
class Thrown:
    """One exception of the chain: its class name and its message."""

    name: str
    message: str


@dataclass(frozen=True)
class _Cause:
    code: str
    pattern: re.Pattern[str]
    message: str
    hint: str


def _cause(code: str, pattern: str, message: str, hint: str) -> _Cause:
    return _Cause(code, re.compile(pattern, re.IGNORECASE), message, hint)


# The first that matches any exception of the chain is reported, so causes come before their consequences.
_CAUSES = (
    _cause(
        "DISK_FULL",
        r"No space left on device|Disk quota exceeded|not enough space|disk is full",
        "no space is left on the disk",
        "Make room there (warehouse, data folder and Spark's temporary folder), then run again.",
    ),
    _cause(
        "OUT_OF_MEMORY",
        r"OutOfMemoryError|GC overhead limit exceeded",
        "Spark ran out of memory",
        "Give the runner more memory, or load fewer datasets at once, then run again.",
    ),
    _cause(
        "READ_ONLY",
        r"Read-only file system",
        "the file system can only be read",
        "Mount it for writing, then run again.",
    ),
    _cause(
        "S3_CLIENT_MISSING",
        r"S3AFileSystem not found|No FileSystem for scheme \"s3a\"",
        "Hadoop's S3 client is not installed",
        f"Run {user_command('setup')} with the variables of this installation (docs/operate/spark.md), then run again.",
    ),
    _cause(
        "CREDENTIALS_EXPIRED",
        r"ExpiredToken|TokenRefreshRequired|RequestExpired|security token included in the request is expired",
        "the credentials of the object store have expired",
        "Renew them; the next run takes the new values. Run again under the same id.",
    ),
    _cause(
        "BUCKET_MISSING",
        r"UnknownStoreException|NoSuchBucket|Bucket \S+ does not exist",
        "the bucket does not exist",
        "Create it, or correct ELEVATA_WAREHOUSE or the source's location, then run again.",
    ),
    _cause(
        "STORE_REFUSES",
        r"NoAuthWithAWSException|No AWS Credentials|Unable to load credentials|InvalidAccessKeyId"
        r"|SignatureDoesNotMatch|S3Exception.*Status Code: 40[013]",
        "the object store refuses the credentials or the request",
        "Check the secrets that ELEVATA_SPARK_CONF names and the bucket's policy, then run again.",
    ),
    _cause(
        "NOT_PERMITTED",
        r"Permission denied|AccessControlException|AccessDeniedException|Operation not permitted"
        r"|Mkdirs failed to create",
        "the folder or file may not be used",
        "Give the account of the worker the right to read and write there, then run again.",
    ),
    _cause(
        "BROKEN_FILE",
        r"ChecksumException|Checksum error|is not a Parquet file|Could not read footer|CANNOT_READ_FILE_FOOTER"
        r"|ParquetDecodingException|Corrupted|Unexpected end of stream|ZipException|CRC mismatch",
        "a data file is damaged",
        "Put it back from a backup, or have it delivered again, then run again.",
    ),
    _cause(
        "FILE_MISSING",
        r"FileNotFoundException|NoSuchFileException|FILE_NOT_EXIST|DELTA_FILE_NOT_FOUND|PATH_NOT_FOUND"
        r"|No such file or directory",
        "a file is missing",
        "Put it back from a backup, or check that its folder is mounted, then run again.",
    ),
    _cause(
        "TABLE_MOVED",
        r"DELTA_CONCURRENT_\w+|Concurrent(Append|Delete\w+|Write|Modification)Exception"
        r"|MetadataChangedException|ProtocolChangedException",
        "another writer changed the table meanwhile",
        "Run again; if it happens often, find out who else writes to the warehouse.",
    ),
    _cause(
        "TABLE_REFUSED",
        r"(?-i:\[DELTA_\w+)",
        "Delta refuses the table",
        "The message names Delta's condition; look it up in Delta's list of error conditions.",
    ),
    _cause(
        "EXECUTOR_LOST",
        r"ExecutorLostFailure|executor lost|Lost executor|SparkContext was shut down|stopped SparkContext",
        "Spark lost a process that worked on it",
        "Usually memory ran out; the runner's log says more. Run again, with more memory if it repeats.",
    ),
    _cause(
        "SPARK_GONE",
        r"^py4j\.protocol\.Py4JNetworkError|^builtins\.ConnectionRefusedError|Answer from Java side is empty"
        r"|error occurred while trying to connect to the Java server|An error occurred while calling \S+$",
        "Spark's Java process is gone",
        "It was killed or crashed; the runner's log and the system's say why. Run again.",
    ),
)
# Causes by which a place cannot be reached at all, whatever lies there.
NO_ACCESS = frozenset({"S3_CLIENT_MISSING", "CREDENTIALS_EXPIRED", "BUCKET_MISSING", "STORE_REFUSES", "NOT_PERMITTED"})
DEEPEST = 30
# Fixed message of each cause, by its code; it holds no data.
MESSAGES = {cause.code: cause.message for cause in _CAUSES}
_PATHS = (
    re.compile(r"((?:file|s3a?|abfss?|gs|hdfs):/[^\s'\"`,;)\]]+)"),
    re.compile(r"(?<![\w:/])(/[^\s'\"`,:;()\[\]]+)"),
)


def cause_of(about: str, chain: Sequence[Thrown]) -> Refusal | None:
    """Return the known cause in the chain as a refusal, with the path and the message line; None if there is none."""
    for cause in _CAUSES:
        for thrown in reversed(chain):  # the innermost is the most specific
            text = f"{thrown.name}: {thrown.message}"
            if cause.pattern.search(text):
                path = _path((thrown.message, *(other.message for other in reversed(chain))))
                words = _line(thrown.message, cause.pattern) or thrown.name
                where = f" ({path})" if path and path not in words else ""
                return Refusal(cause.code, f"{about}: {cause.message}{where}: {words}", hint=cause.hint, file=path)
    return None


def chain_of(
    failure: BaseException, behind: Callable[[BaseException], Iterable[Thrown]] = lambda _: ()
) -> tuple[Thrown, ...]:
    """Return the chain of exceptions behind a failure, outermost first.

    ``behind`` returns those that one of them wraps, such as Java's.
    """
    chain: list[Thrown] = []
    error: BaseException | None = failure
    while error is not None and len(chain) < DEEPEST:
        kind = type(error)
        chain.append(Thrown(f"{kind.__module__}.{kind.__qualname__}", str(error)))
        chain.extend(behind(error))
        error = error.__cause__
    return tuple(chain)


def worker_accident(failure: Exception) -> Refusal:
    """Return an unexpected error of the worker as a refusal: its cause if it is known, else its first line."""
    first_line = (str(failure).strip().splitlines() or [""])[0][:500]
    return cause_of("the worker", chain_of(failure)) or Refusal(
        "UNEXPECTED", f"{type(failure).__name__}: {first_line}", hint="The worker's log has the details."
    )


# Exit codes of Java (-XX:+ExitOnOutOfMemoryError) and of Spark's executor.
_OUT_OF_MEMORY = (3, 52)


def cause_of_death(code: int) -> tuple[str, str]:
    """Return how the runner ended, and a hint, from the exit code of its process."""
    if code in _OUT_OF_MEMORY:
        return "ran out of memory", "Give it more (ELEVATA_DRIVER_MEMORY; the runner of reads, ELEVATA_READS_MEMORY)."
    number = -code if code < 0 else code - 128 if code > 128 else 0
    if not number:
        return f"ended with code {code}", ""
    try:
        name = signal.Signals(number).name
    except ValueError:
        name = "unknown"
    how = f"was killed by signal {number} ({name})"
    if number == signal.SIGKILL:
        return how, "Usually the system ran out of memory; its log says so. Give it more, or the runner less."
    if number in (signal.SIGSEGV, signal.SIGABRT, signal.SIGBUS):
        return how, "Java crashed: a file hs_err_pid*.log says where."
    return how, ""


def _path(messages: Iterable[str]) -> str:
    for message in messages:
        for pattern in _PATHS:
            if match := pattern.search(message):
                return match.group(1).rstrip(".:")
    return ""


def _line(message: str, pattern: re.Pattern[str]) -> str:
    """Return the first line that matches the pattern, else the first line."""
    lines = [line.strip() for line in message.splitlines() if line.strip()]
    return next((line for line in lines if pattern.search(line)), lines[0] if lines else "")[:500]
