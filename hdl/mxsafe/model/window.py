"""Matrix product in arithmetic ``window``: block sums added as integers, rounded once an output.

What follows is meant to be read beside sections 4 to 6 of the contract of `exact`, from which it
differs in nothing but how block sums are added up.

**Operands, products and block sums** are those of `exact`: products of elements are integers in
units of ``2^q`` (MXSF: ``q = -22``, below ``2^p`` with ``p = 24``), and the sum S of a block is
exact.

**Anchor.** Each row i of `a` has an anchor ``A_i``: the largest scale code of its blocks over the
whole of k. Each column j of `w` has ``B_j``. They are known as soon as a row or column is
quantised, whatever it is multiplied with later, and go along with the operands: 8 bits for each row
and column of an output tile. The sum of a block with scale codes ``bA`` and
``bW`` has the distance ``d = (A_i - bA) + (B_j - bW)``, which is never negative.

**Window.** An output is an integer of `window` bits in two's complement, 0 at first. Its lowest
bit weighs ``2^(l + A_i + B_j - 254)`` with ``l = q + p + ceil(log2(inner)) + 1 - window``, where
`inner` is the most products that are added up. At the end of a block the output gains
``floor(S * 2^(q - l - d) + 1/2)``: the sum is rounded to nearest, a tie goes up.

**Above the window** there is nothing. A sum of `inner` products is below ``2^p * inner`` units
whatever they are, and a block below the anchor adds less than it would at the anchor. The largest
product is so far below ``2^p`` that half a unit more for each product does not matter either;
`OperandFormats.window_exponent` refuses windows too narrow for that. Where an output has more than
`inner` products, the model refuses it and hardware flags it.

**Below the window** each block is rounded once, so an output is off by at most half a unit a block.
A block far enough below the anchor adds nothing.

**Result.** ``output * 2^(l + A_i + B_j - 254)`` is rounded once to binary32, to nearest even, with
subnormals and overflow to Inf. 0 gives +0.

**NaN.** A scale of 255 is the largest code there is, so it makes the anchor 255. Where an anchor is
255 the result is ``0x7fc00000``. An element that is NaN or Inf counts as a NaN scale of its block.
Hardware takes anchors as they come: a block whose scale is above the anchor makes NaN of its row or
column.

**Order.** Integers are added without rounding, so a result does not depend on
the order of blocks, nor on where k is cut into parts: parts can be computed side by side and their
outputs added, with the anchors of the whole row and column. That is not so of `exact`, whose
binary32 additions round once a block.

Other anchors were weighed. The largest ``bA + bW`` of the blocks of an output is never above
``A_i + B_j`` and may be far below, but it belongs to a pair of row and column: somebody would have
to read all scales of a tile before its first code. The largest so far needs no foreknowledge. But
then the outputs move right whenever a larger block comes, which takes a second shifter in the loop,
loses bits that an earlier block has added, and makes the result depend on the order again. A window
over all exponents that two scales can have needs no anchor, and more than 500 bits.
"""

from typing import Annotated, Any

import numpy as np
from numpy.typing import NDArray

from mxsafe.codec.blocks import QuantizedTensor
from mxsafe.formats import E8M0, has_special_codes
from mxsafe.model.decoder import is_special
from mxsafe.model.sums import FLOAT64_BITS, Decoded, Place
from mxsafe.products import OperandFormats
from mxsafe.validation import checked, within

_INT64_BITS = 62


@checked
def anchors(q: QuantizedTensor, inner: Annotated[int, within(0, 1)]) -> NDArray[np.uint8]:
    """The largest scale code of every row or column of an operand; 255 where a block is NaN.

    Parameters
    ----------
    q : QuantizedTensor
        A matrix.
    inner : int
        The axis that is summed over, 0 or 1.

    Returns
    -------
    ndarray of uint8
        Of rows with `inner` 1, of columns with 0.

    Raises
    ------
    ValueError
        If `q` is no matrix, or `inner` no axis of one.
    """
    if q.codes.ndim != 2:
        raise ValueError(f"q must be a matrix, not a tensor of rank {q.codes.ndim}")
    if q.codes.shape[inner] == 0:
        return np.zeros(q.codes.shape[1 - inner], np.uint8)
    largest: NDArray[np.uint8] = q.element_scales().max(axis=inner)
    if has_special_codes(q.format):
        special = is_special(q.codes, q.format).any(axis=inner)
        largest = np.where(special, np.uint8(E8M0.nan_code), largest)
    return largest


class Window:
    """Sums that are integers of a window; see above.

    Parameters
    ----------
    a, w : QuantizedTensor
        Matrices with blocks of the same length in the inner dimension.
    block : int
        That length.
    window : int
        Bits of the window.
    inner : int
        Most products of an output.

    Raises
    ------
    ValueError
        If operands have more products an output, or scales that are not E8M0; or
        `OperandFormats.window_exponent` refuses the window.
    """

    def __init__(
        self, a: QuantizedTensor, w: QuantizedTensor, *, block: int, window: int, inner: int
    ) -> None:
        formats = OperandFormats(a.format, w.format)
        formats.require_scales()
        self._lowest = formats.window_exponent(window, inner)
        if a.shape[1] > inner:
            raise ValueError(
                f"a must have at most inner = {inner} columns, which windows hold, not {a.shape[1]}"
            )
        self._quantum = formats.quantum_exponent
        self._block = block
        self._sum_bits = formats.sum_bits(min(block, max(a.shape[1], 1)))
        self._rows, self._columns = (
            anchors(q, axis).astype(np.int64) for q, axis in ((a, 1), (w, 0))
        )

    def begin(self, place: Place, shape: tuple[int, int]) -> NDArray[np.int64]:
        """Zeros."""
        return np.zeros(shape, np.int64)

    def add(self, sums: NDArray[np.int64], a: Decoded, w: Decoded, place: Place) -> None:
        """Add the products of a stretch of k."""
        anchor, left, right = self._anchor(place), a.integers, w.integers
        for k in range(0, left.shape[1], self._block):
            scale_a, scale_w = a.scale_codes[:, k].astype(np.int64), w.scale_codes[k]
            distance = anchor - (scale_a[:, None] + scale_w)
            own = slice(k, k + self._block)
            block = self._block_sum(left[:, own], right[own])
            sums += _rounded(block, distance + (self._lowest - self._quantum))

    def result(self, sums: NDArray[np.int64], place: Place) -> NDArray[np.float32]:
        """Rounded once; NaN where an anchor is."""
        exponent = self._anchor(place) + (self._lowest - 2 * E8M0.bias)
        with np.errstate(over="ignore"):
            result = np.ldexp(sums.astype(np.float64), exponent).astype(np.float32)
        rows, columns = self._rows[place.rows], self._columns[place.columns]
        result[(rows == E8M0.nan_code)[:, None] | (columns == E8M0.nan_code)] = np.nan
        return result

    def _anchor(self, place: Place) -> NDArray[np.int64]:
        return self._rows[place.rows, None] + self._columns[place.columns]

    def _block_sum(self, a: NDArray[np.int64], w: NDArray[np.int64]) -> NDArray[Any]:
        """Exact sums of products."""
        if self._sum_bits <= FLOAT64_BITS:  # BLAS is exact in whatever order it adds
            return (a.astype(np.float64) @ w.astype(np.float64)).astype(np.int64)
        if self._sum_bits <= _INT64_BITS:
            return a @ w
        return np.asarray(a.astype(object) @ w.astype(object))


def _rounded(sums: NDArray[Any], distance: NDArray[np.int64]) -> NDArray[np.int64]:
    """``floor(sums * 2^-distance + 1/2)``."""
    # Shifted by more bits than there are in a sum, and no more than a word has, it is 0.
    most = _INT64_BITS + 1 if sums.dtype == np.int64 else int(distance.max(initial=1))
    right: NDArray[Any] = np.clip(distance, 1, most).astype(sums.dtype)
    left: NDArray[Any] = np.clip(-distance, 0, None).astype(sums.dtype)
    rounded = ((sums >> (right - 1)) + 1) >> 1
    return np.where(distance > 0, rounded, sums << left).astype(np.int64)
