"""docs/transactions.md says what the code does."""

from tests.docs.markdown import ROOT, blocks
from tms.settings import Settings
from tms.transactions.transitions import diagram
from tms.wire.json_transactions import decode_commit

PAGE = (ROOT / "docs" / "transactions.md").read_text(encoding="utf-8")


def test_the_state_diagram_is_made_from_the_table() -> None:
    assert f"```mermaid\n{diagram()}\n```" in PAGE


def test_each_crash_names_a_test() -> None:
    _, _, table = PAGE.partition("| crash | state after the restart | shown by |\n")
    rows = table.partition("\n\n")[0].splitlines()[1:]

    assert rows
    assert [row for row in rows if "`tests/" not in row] == []


def test_settings_that_it_names_are_there() -> None:
    assert "transaction_owner_retention_s" in PAGE
    assert "transaction_owner_retention_s" in Settings.model_fields


def test_the_commit_of_tasks_is_one_that_is_taken() -> None:
    [body] = [block.text for block in blocks("docs/transactions.md") if block.kind == "json"]
    [stored] = decode_commit(body.encode()).publish

    assert str(stored.topic_id) == "default:orders"
