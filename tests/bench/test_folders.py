"""Tests of restoring a Delta table: data files are links, the log is a copy."""

from bench.history.folders import link_copy


def test_link_copy_copies_the_delta_log_and_links_data_files(tmp_path):
    table, saved = tmp_path / "tables", tmp_path / "saved" / "0"
    log = table / "t" / "_delta_log"
    log.mkdir(parents=True)
    (table / "t" / "part.parquet").write_text("rows")
    (log / "_last_checkpoint").write_text("1")
    link_copy(table, saved)

    (log / "_last_checkpoint").write_text("2")
    (log / "1.json").write_text("{}")
    assert (saved / "t" / "_delta_log" / "_last_checkpoint").read_text() == "1"
    assert (saved / "t" / "part.parquet").samefile(table / "t" / "part.parquet")

    link_copy(saved, table)
    assert sorted(path.name for path in table.rglob("*") if path.is_file()) == ["_last_checkpoint", "part.parquet"]
    assert (log / "_last_checkpoint").read_text() == "1"
