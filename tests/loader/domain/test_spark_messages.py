"""Log texts of Spark and Java without the values that they quote."""

import time

from loader.domain.spark_messages import LEFT_OUT, without_quoted_values

VALUE = "Ada 91001"
QUOTING = (
    f"[CAST_INVALID_INPUT] The value '{VALUE}' cannot be cast. SQLSTATE: 22018\n== SQL ==\nx\n\tat a.b(C:1)",
    f"Lost task 0.0: org.apache.spark.SparkRuntimeException: [X_Y.Z_1] a line\nand {VALUE}\n\tat a.b(C.scala:1)",
    f'java.lang.NumberFormatException: For input string: "{VALUE}"\n\tat java.lang.Long.parse(Long.java:1)',
    f"Caused by: java.time.format.DateTimeParseException: Text '{VALUE}' could not be parsed at index 0",
    f"org.postgresql.util.PSQLException: ERROR: duplicate key\n  Detail: Key (name)=({VALUE}) already exists.",
)
KEPT = (
    "java.io.IOException: no space left on device\n\tat java.base/Files.write(Files.java:1)",
    "ConnectionError: the disk is full",
    "[stage 3] Lost task 0.0 (TID 1) (host executor 2)",
)


def test_message_that_quotes_a_value_is_removed_but_its_trace_is_kept():
    for text in QUOTING:
        cut = without_quoted_values(text)
        assert VALUE not in cut
        assert LEFT_OUT in cut
        assert cut.count("\n\tat ") == text.count("\n\tat ")
    first = without_quoted_values(QUOTING[0])
    assert first.startswith(f"[CAST_INVALID_INPUT] {LEFT_OUT} SQLSTATE: 22018\n== SQL ==")


def test_log_lines_without_quoted_values_are_unchanged():
    for text in KEPT:
        assert without_quoted_values(text) == text


def test_removed_message_ends_at_the_last_possible_end_even_if_the_value_contains_one():
    trace = "\n\tat a.b(C:1)\n\nDriver stacktrace:\n\tat d.e(F.scala:2)"
    for value in (f"a SQLSTATE: 22018 {VALUE}", f"a\n at b.c(D.java:1)\n{VALUE}", f"a\n== SQL ==\n{VALUE}"):
        for head, end in (("[CAST_INVALID_INPUT]", f" SQLSTATE: 22018{trace}"), ("x.PSQLException:", trace)):
            text = f"job: {head} the value '{value}' of [AB_1] cannot be cast{end}"
            assert without_quoted_values(text) == f"job: {head} {LEFT_OUT}{end}"


def test_time_to_leave_out_a_message_is_proportional_to_its_length():
    unit = (" ", "\t", "\n", "\r\n", "\n ", "\nat ", "\n == ", "[", "[A", "_A", ".A_", "A", "[A_B]", "[A_B", " at a(")
    causes = ("\nCaused by: ", "\nCaused by: a.", "a.", " SQLSTATE: ", " SQLSTATE: 22018", "PSQLException:")
    started = time.thread_time()
    for repeated in (*unit, *causes):
        for start in ("", "[CAST_INVALID_INPUT] ", "Caused by: x.PSQLException:", "\nCaused by: ", "\n at ", "["):
            without_quoted_values(start + repeated * (200_000 // len(repeated)))
    assert time.thread_time() - started < 30
