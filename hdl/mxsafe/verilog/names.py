"""Names and places of generated modules: tops keep those of their units, parts have a prefix."""

import hashlib
import re
from collections.abc import Mapping

from mxsafe.validation import checked

PREFIX = "mxsafe_"
"""Prefix of parts' names, so that they are not those of somebody else's modules."""
LONGEST = 48
"""Characters of the name of a part with a prefix."""
PARTS = "parts"
"""The folder of parts, inside that of the tops."""

_LONGEST_PREFIX = 20
_DIGITS = 8
_MODULE = re.compile(
    r"^(module )(\w+)(?= ?[#(])"  # the module itself
    r"|^(  )(\w+)(?= (?:#\(.*\) )?(?:\\\S+ +|\w+ )\($)",  # an instance of one
    re.MULTILINE,
)


@checked
def require_prefix(prefix: str) -> None:
    """Refuse a prefix of parts that is none.

    Raises
    ------
    ValueError
        If it is neither empty nor the beginning of a Verilog name.
    """
    if prefix and not re.fullmatch(rf"[A-Za-z_]\w{{0,{_LONGEST_PREFIX - 1}}}", prefix, re.ASCII):
        raise ValueError(
            f"prefix must be a letter or _ and up to {_LONGEST_PREFIX - 1} letters, digits and _, "
            f"not {prefix!r}"
        )


@checked
def part_name(unit: str, prefix: str = PREFIX) -> str:
    """Name of the module of a unit that is inside another one.

    Parameters
    ----------
    unit : str
        The name that the unit's configuration gives it.
    prefix : str
        What the name begins with. A longer name than `LONGEST` is cut, and ends in a digest of all
        of it. Without a prefix the unit keeps its name, however long it is.
    """
    name = f"{prefix}{unit}"
    if not prefix or len(name) <= LONGEST:
        return name
    digest = hashlib.sha256(unit.encode()).hexdigest()[:_DIGITS]
    stem, _, _ = name[: LONGEST - _DIGITS].rpartition("_")
    return f"{stem}_{digest}"


@checked
def renamed(text: str, names: Mapping[str, str]) -> str:
    """A module with other names for itself and for the modules inside it.

    Parameters
    ----------
    text : str
        As `mxsafe.verilog.convert.to_verilog` writes it.
    names : Mapping of str to str
        New names by old ones; other names stay.
    """

    def new(found: re.Match[str]) -> str:
        start, name = found[1] or found[3], found[2] or found[4]
        return f"{start}{names.get(name, name)}"

    return _MODULE.sub(new, text)
