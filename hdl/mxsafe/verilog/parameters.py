"""Modules with parameters made into modules without: a tool may look at each by itself."""

import re
from collections.abc import Mapping

from mxsafe.validation import checked

_INSTANCE = re.compile(r"^  (\w+) #\((.*)\)(?= (?:\\\S+ +|\w+ )\()", re.MULTILINE)
_GIVEN = re.compile(r"\.(\w+)\((\d+)\)")


@checked
def fixed_name(module: str, parameters: Mapping[str, int]) -> str:
    """Name of a module with these parameters, of which there may be none."""
    return "_".join([module, *(f"{name.lower()}{value}" for name, value in parameters.items())])


@checked
def fixed(text: str, parameters: Mapping[str, int], name: str = "") -> str:
    """A module whose parameters are so by default.

    Parameters
    ----------
    text : str
        Verilog of a module with parameters.
    parameters : Mapping of str to int
    name : str
        What the module is called then; as it is, if it is empty.

    Raises
    ------
    ValueError
        If the text has no such parameter.
    """
    for parameter, value in parameters.items():
        text, count = re.subn(
            rf"(^  parameter {re.escape(parameter)} = )\d+", rf"\g<1>{value}", text, flags=re.M
        )
        if count != 1:
            raise ValueError(f"parameters must be of the module, not {parameter}")
    return re.sub(r"(?<=^module )\w+", lambda _: name, text, flags=re.M) if name else text


@checked
def without_parameters(texts: Mapping[str, str]) -> dict[str, str]:
    """Modules of which one with parameters becomes one for each set of them that instances have.

    Parameters
    ----------
    texts : Mapping of str to str
        Verilog by module, each with all that has instances of it.

    Returns
    -------
    dict
        Verilog by module, those without parameters called as `fixed_name` says.
    """
    given: dict[str, dict[str, dict[str, int]]] = {}
    for text in texts.values():
        for found in _INSTANCE.finditer(text):
            own = _given(found)
            given.setdefault(found[1], {})[fixed_name(found[1], own)] = own
    made: dict[str, str] = {}
    for module, text in texts.items():
        if module in given:
            made |= {name: fixed(text, own, name) for name, own in sorted(given[module].items())}
        else:
            made[module] = with_fixed(text)
    return made


@checked
def with_fixed(text: str) -> str:
    """A module whose instances with parameters are of modules without, called as `fixed_name`."""
    return _INSTANCE.sub(lambda found: f"  {fixed_name(found[1], _given(found))}", text)


def _given(instance: re.Match[str]) -> dict[str, int]:
    return {name: int(value) for name, value in _GIVEN.findall(instance[2])}
