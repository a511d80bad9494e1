from tests.repository.plain_sql_page import PAGE, page


def test_page_of_dialects_lists_their_rules():
    command = f"python -m {page.__module__} > docs/understand/plain_sql_operations.md"
    assert PAGE.read_text(encoding="utf-8") == f"{page()}\n", command
