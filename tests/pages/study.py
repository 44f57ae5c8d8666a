"""docs/study.md, and what README.md and study/README.md say of the study: tables and numbers.

`cd tests && python -m pages.study` fills them in; a test holds the pages to them. A table stands
between the lines `<!-- NAME ARGUMENTS -->` and `<!-- end -->`, where NAME is one of `TABLES`. A
number in a sentence is a link to where it is from, `[.471](PATH "NAME ARGUMENTS")`, with one of
`NUMBERS`.
"""

from __future__ import annotations

import re

from minbert.base.files import write_text

from .study_bundles import ROOT, STUDY
from .study_numbers import NUMBERS
from .study_tables import LISTS, TABLES

PAGE, README, RUNS = PAGES = (ROOT / "docs/study.md", ROOT / "README.md", STUDY / "README.md")
BLOCK = r"<!-- ([a-z][^>]*?) -->\n.*?<!-- end -->"
NUMBER = r'\[[^]\n]*\](\([^\s)]+ "([^"]+)"\))'


def filled(page: str) -> str:
    """Return `page` with every table and every number made anew."""

    def block(found: re.Match[str]) -> str:
        name, *arguments = found[1].split()
        heads, *rows = TABLES[name](*arguments)
        if name in LISTS:
            lines = [f"- {what}: {why}{f' ({of})' * bool(of)}." for what, why, of in rows]
        else:
            lines = [f"| {' | '.join(row)} |" for row in (heads, ["---"] * len(heads), *rows)]
        return "\n".join([f"<!-- {found[1]} -->", *lines, "<!-- end -->"])

    def number(found: re.Match[str]) -> str:
        name, *arguments = found[2].split()
        return f"[{NUMBERS[name](*arguments)}]{found[1]}"

    page = re.sub(BLOCK, block, page, flags=re.DOTALL)
    return re.sub(NUMBER, number, page)


if __name__ == "__main__":
    for page in PAGES:
        write_text(page, filled(page.read_text("utf-8")))
