"""``python -m studies.pages [NAME ...]``: writes pages of ``docs/`` from what was measured.

``--check`` writes nothing and fails if a page is not what its template and its numbers make.
"""

import sys
from collections.abc import Sequence

from studies import pages
from studies.prose import parser_of


def main(argv: Sequence[str]) -> int:
    """Write or check pages; 1 if one of those that are checked is stale."""
    parser = parser_of("pages", __doc__)
    parser.add_argument("--check", action="store_true", help="compare with what is there")
    parser.add_argument("name", nargs="*", help=f"of {', '.join(pages.NAMES)}; by default all")
    arguments = parser.parse_args(argv)
    if unknown := sorted(set(arguments.name) - set(pages.NAMES)):
        parser.error(f"name must be one of {', '.join(pages.NAMES)}, not {unknown[0]}")
    names, stale = arguments.name or pages.NAMES, 0
    for number, name in enumerate(names, 1):
        place = f"{number:>{len(str(len(names)))}}/{len(names)} {name}.md"
        if arguments.check:
            fresh = (pages.DOCS / f"{name}.md").read_text() == pages.text(name)
            stale += not fresh
            print(place, "as it is" if fresh else "differs", flush=True)
        else:
            pages.write(name)
            print(place, "written", flush=True)
    return int(stale > 0)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
