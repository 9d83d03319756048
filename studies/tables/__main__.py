"""``python -m studies.tables [NAME...]``: make tables anew and write them into the package."""

import json
import sys
from collections.abc import Sequence
from dataclasses import asdict, astuple
from pathlib import Path

from mxsafe import tables
from mxsafe.atomic import write_atomically
from mxsafe.tables import Table
from studies.tables.specifications import NAMES, make

FOLDER = Path(tables.__file__).parent
"""Where the tables are."""


def text(table: Table) -> str:
    """A table as JSON, a line for each segment."""
    parameters = asdict(table)
    lists = {name: parameters.pop(name) for name in ("coefficients", "bounds")}
    if table.places:
        lists["places"] = [astuple(place) for place in table.places]
    parameters.pop("places")
    fields = [f'  "{name}": {json.dumps(value)}' for name, value in parameters.items()]
    for name, rows in lists.items():
        lines = ",\n    ".join(json.dumps(list(row)) for row in rows)
        fields.append(f'  "{name}": [\n    {lines}\n  ]')
    return "{\n" + ",\n".join(fields) + "\n}\n"


def _write(table: Table) -> None:
    write_atomically(FOLDER / f"{table.name}.json", text(table))


def main(arguments: Sequence[str]) -> int:
    """Make the tables of these names, or all."""
    unknown = [name for name in arguments if name not in NAMES]
    if unknown:
        print(f"tables must be of {', '.join(NAMES)}, not {unknown[0]!r}", file=sys.stderr)
        return 2
    for name in arguments or NAMES:
        table = make(name)
        _write(table)
        print(f"{name}: {table.segments} segments, error {table.error:.3e}")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
