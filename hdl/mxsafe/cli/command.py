"""Interface between a module of `mxsafe.cli` and its command."""

from argparse import ArgumentParser, Namespace
from collections.abc import Callable
from dataclasses import dataclass


def _as_typed(word: str) -> str:
    return word


@dataclass(frozen=True, kw_only=True)
class Command:
    """A command of `mxsafe`.

    Attributes
    ----------
    summary : str
        One line for the list of commands.
    add_arguments : callable
        Adds the arguments to the command's parser.
    run : callable
        Does the work with the parsed arguments. It raises
        `mxsafe.cli.arguments.UserError` for what the user can mend.
    description : str, optional
        Text above the command's own help; by default the summary.
    aliases : tuple of str
        Other names of the command.
    prepare : callable
        Applied to every word behind the command's name before argparse reads it; by default it
        changes nothing.
    """

    summary: str
    add_arguments: Callable[[ArgumentParser], None]
    run: Callable[[Namespace], None]
    description: str | None = None
    aliases: tuple[str, ...] = ()
    prepare: Callable[[str], str] = _as_typed
