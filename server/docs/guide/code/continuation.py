"""Continuation: a read goes on where it was, in another program or after a restart of the
server."""

import json
import tempfile
from pathlib import Path

from store import compare, insert_all, new_table, table_client

ENTITIES, PAGE = 90, 10
table, scattered = new_table("Rows"), new_table("Scattered")
insert_all(table, ({"PartitionKey": "all", "RowKey": f"{number:06}"} for number in range(ENTITIES)))


# region naive
def start_over():
    # A program that stopped in the middle reads everything again.
    return [
        row["RowKey"]
        for row in table.query_entities("PartitionKey eq 'all'", results_per_page=PAGE)
    ]


# endregion


# region advised
def read_pages(client, state, pages_max=None):
    """Reads on from the token in `state`, and writes the next token after each page; returns the
    RowKeys."""
    saved = json.loads(state.read_text()) if state.exists() else None
    pages = client.query_entities("PartitionKey eq 'all'", results_per_page=PAGE).by_page(saved)
    row_keys = []
    for number, page in enumerate(pages, 1):
        row_keys += [row["RowKey"] for row in page]
        # After the work on the page is done: a program that dies in between repeats this page, and
        # skips none.
        state.write_text(json.dumps(pages.continuation_token))
        if number == pages_max:
            break
    return row_keys


# endregion


# region empty
def urgent_by_full_pages():
    """Takes a page without entities for the end."""
    found = []
    for page in scattered.query_entities("IsUrgent eq true").by_page():
        rows = [row["RowKey"] for row in page]
        if not rows:
            break
        found += rows
    return found


def urgent_by_tokens():
    """Reads on until there is no token; returns the RowKeys and the number of entities in each
    page."""
    found, sizes = [], []
    pages = scattered.query_entities("IsUrgent eq true").by_page()
    for page in pages:
        rows = [row["RowKey"] for row in page]
        found += rows
        sizes.append(len(rows))
    assert pages.continuation_token is None
    return found, sizes


# endregion


with tempfile.TemporaryDirectory() as directory:
    state = Path(directory) / "state.json"
    first = read_pages(table, state, pages_max=5)

    def read_on():
        # A client of its own: the token is all that is left of the first one.
        return first + read_pages(table_client(table.table_name), state)

    compare(start_over, read_on, "requests")

# Partitions of ten jobs each; the only urgent one is in the last partition.
jobs = (
    {"PartitionKey": f"{number // 10:02}", "RowKey": f"{number:02}", "IsUrgent": number == 39}
    for number in range(40)
)
insert_all(scattered, jobs)
found, sizes = urgent_by_tokens()
assert found == ["39"]
print(f"pages until the token is missing: {sizes}; until a page is empty: {urgent_by_full_pages()}")
