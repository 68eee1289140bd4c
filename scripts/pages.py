"""Tables that scripts put into pages of the documentation."""

from __future__ import annotations

from pathlib import Path

DOCS = Path(__file__).parents[1] / "docs"
BEGIN, END = "<!-- begin -->\n", "<!-- end -->"


def put(table: str, name: str) -> None:
    """Replace what stands between the marks of the page."""
    page = DOCS / name
    head, _, rest = page.read_text(encoding="utf-8").partition(BEGIN)
    _, _, tail = rest.partition(END)
    page.write_text(f"{head}{BEGIN}{table}\n{END}{tail}", encoding="utf-8")
