"""Line differences of texts."""

from time import thread_time

from elevata.web.line_differences import ADDED, LEFT_OUT, MAX_LINES, REMOVED, SAME, Line, line_differences

SELECT = "SELECT a,\n  b,\n  c\nFROM mart.x\nWHERE a > 1\nGROUP BY b\nORDER BY c\nLIMIT 3"


def test_changed_line_is_removed_and_added_between_unchanged_ones():
    lines = line_differences(SELECT, SELECT.replace("mart.x", "mart.y"))
    assert [line.kind for line in lines] == [SAME, SAME, SAME, REMOVED, ADDED, SAME, SAME, LEFT_OUT]
    assert Line(REMOVED, "FROM mart.x") in lines
    assert Line(ADDED, "FROM mart.y") in lines


def test_equal_texts_have_no_changed_line():
    assert {line.kind for line in line_differences(SELECT, SELECT)} <= {SAME, LEFT_OUT}


def test_inserted_line_keeps_the_others():
    lines = line_differences("a\nb\nc", "a\nx\nb\nc")
    assert lines == (Line(SAME, "a"), Line(ADDED, "x"), Line(SAME, "b"), Line(SAME, "c"))


def test_unchanged_lines_between_changes_are_counted():
    before = "\n".join(["x", *(f"line {number}" for number in range(20)), "y"])
    after = before.replace("x\n", "X\n").replace("\ny", "\nY")
    assert Line(LEFT_OUT, "16 unchanged lines") in line_differences(before, after)


def test_long_texts_are_compared_in_bounded_time():
    before = "\n".join(f"{number % 7},{number}" for number in range(20_000))
    after = "\n".join(f"{number % 11},{number}" for number in range(20_000))
    start = thread_time()
    lines = line_differences(before, after)
    assert thread_time() - start < 1
    assert len(lines) > MAX_LINES
    assert {line.kind for line in lines} <= {SAME, LEFT_OUT, ADDED, REMOVED}


def test_long_lines_are_compared_in_bounded_time():
    start = thread_time()
    line_differences("ab" * 500_000, "ba" * 500_000)
    assert thread_time() - start < 1
