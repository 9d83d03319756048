"""Kernels of a graph: operations that are computed together."""

from dataclasses import dataclass, field
from typing import Any, Literal, NamedTuple

from mxsafe.machine.compiler.placement import Key, Placement
from mxsafe.machine.compiler.tensors import Operand, Placed
from mxsafe.machine.graph import Value


@dataclass(eq=False)
class Kernel:
    """Operations that are computed together.

    Attributes
    ----------
    root : Value
        Whose result leaves the kernel.
    kind : {"tensor", "operand"}
        As what.
    placement : Placement
    targets : list of Vectors or Operand
        Of each matrix of the placement where it goes in memory.
    placed : dict
        Values that it computes, each with the number of times that their result is needed.
    names : list of str
        Of these values.
    whole : bool
        Whether rows must be there as a whole.
    in_pieces : bool
        Whether it is a reduction of rows that do not fit into the vector buffer.
    summed : int
        Beats of the rows that its root adds up.
    cost : int
        Results that are in the vector buffer together, at most.
    longest : int
        Beats of the longest row.
    product : Product, optional
    steps : list of int
        Descriptors.
    converted : Kernel, optional
        One whose operand is made of this kernel's result alone: it is made as that is stored.
    asked : list of tuple
        Values, in placements, that it is made of.
    stays : set of tuple of int and str
        Of an operand the matrices, and buffers, that stay there until they are used.
    resident : dict
        Where these are.
    needed : set of int
        Matrices of an operand that go to memory.
    fixed : bool
        Whether an operand has its place in memory from the beginning.
    within : list of list of Task
        Of an operand that is nothing but columns of others what makes each matrix.
    after : list of Kernel
        Those that read what its result overwrites.
    beside : set of int
        Matrices that are made beside others, while these have vectors alone.
    also : list of Kernel
        Values of its own that it stores as well, each a kernel that is done with this one.
    of : Kernel, optional
        The one that this one is done with.
    """

    root: Value
    kind: Literal["tensor", "operand"]
    placement: Placement
    targets: list[Any] = field(default_factory=list)
    placed: dict[tuple[int, Key], int] = field(default_factory=dict)
    names: list[str] = field(default_factory=list)
    whole: bool = False
    in_pieces: bool = False
    summed: int = 0
    cost: int = 1
    longest: int = 0
    product: "Product | None" = None
    steps: list[int] = field(default_factory=list)
    converted: "Kernel | None" = None
    asked: list[tuple[Value, Placement]] = field(default_factory=list)
    resident: dict[tuple[int, str], Placed] = field(default_factory=dict)
    stays: set[tuple[int, str]] = field(default_factory=set)
    needed: set[int] = field(default_factory=set)
    fixed: bool = False
    within: "list[list[tuple[Kernel, int]]]" = field(default_factory=list)
    after: "list[Kernel]" = field(default_factory=list)
    beside: set[int] = field(default_factory=set)
    also: "list[Kernel]" = field(default_factory=list)
    of: "Kernel | None" = None

    @property
    def maker(self) -> "Kernel":
        """The kernel that is emitted: itself, or the one that it is done with."""
        return self.of or self

    @property
    def operand(self) -> "Kernel | None":
        """Kernel of the operand that its result becomes."""
        return self if self.kind == "operand" else self.converted

    @property
    def operands(self) -> list[Operand] | None:
        """Places of its result as an operand; None if it is none."""
        return None if self.operand is None else self.operand.targets


class Source(NamedTuple):
    """Operands of a product: for each matrix of its placement which one of some."""

    operands: "list[Operand] | Kernel"
    which: list[int]
    turned: bool = False
    """Whether its rows and columns are exchanged in memory."""

    def operand(self, matrix: int) -> Operand:
        """Where it lies."""
        found = self.operands.targets if isinstance(self.operands, Kernel) else self.operands
        made: Operand = found[self.which[matrix]]
        return made

    def resident(self, matrix: int, side: str) -> Placed | None:
        """Where it is in a buffer, if it stays there."""
        if not isinstance(self.operands, Kernel):
            return None
        return self.operands.resident.get((self.which[matrix], side))


class Product(NamedTuple):
    """The product of a kernel: operands whose rows are lanes, and beats."""

    value: Value
    key: Key
    lanes: Source
    beats: Source


# A kernel, and which of its matrices.
Task = tuple[Kernel, int]
