"""AXI4-Stream as a signature, whose ports are one member of a unit; and layouts of common beats.

Tested by `verif/rtl/stream/test_converter.py`.
"""

from typing import Any

from amaranth.hdl import Shape, ShapeLike, Value
from amaranth.lib import data, wiring
from amaranth.lib.wiring import In, Out

from mxsafe.formats import FloatFormat, MXFormat


class AxiStream(wiring.Signature):
    """An AXI4-Stream, seen from its source: a beat passes where `tvalid` and `tready` are set.

    A member ``s_axis_a`` of a unit becomes ports ``s_axis_a_tdata``, ``s_axis_a_tvalid`` and so on.

    Parameters
    ----------
    payload : ShapeLike
        `tdata`: whole bytes, see `whole_bytes`.
    user : ShapeLike, optional
        `tuser`; by default there is none.
    last : bool
        Whether there is `tlast`: of a stream whose packets are those of another there is none.

    Attributes
    ----------
    tdata, tuser : Out
        What a beat carries; it stays as it is until the beat is taken.
    tvalid : Out(1)
        There is a beat.
    tready : In(1)
        It is taken.
    tlast : Out(1)
        It ends a packet.
    """

    def __init__(
        self, payload: ShapeLike, *, user: ShapeLike | None = None, last: bool = True
    ) -> None:
        members: dict[str, Any] = {
            "tdata": Out(payload),
            "tvalid": Out(1),
            "tready": In(1),
        }
        if last:
            members["tlast"] = Out(1)
        if user is not None:
            members["tuser"] = Out(user)
        super().__init__(members)


def joined(source: Any, sink: Any) -> list[Any]:
    """Statements that let the beats of a stream enter another one, whatever its bits are called.

    Parameters
    ----------
    source, sink : interface
        What has `valid` and `ready`, or `tvalid` and `tready`. Other members that the sink has not
        end here.
    """
    names = source.signature.members
    if "tvalid" in names:
        order, ready = ["tdata", "tuser", "tlast", "tvalid"], "tready"
    else:
        order, ready = ["valid", *(n for n in names if n not in ("valid", "ready"))], "ready"
    both = [name for name in order if name in names and hasattr(sink, name)]
    return [
        *(Value.cast(getattr(sink, name)).eq(Value.cast(getattr(source, name))) for name in both),
        getattr(source, ready).eq(getattr(sink, ready)),
    ]


def whole_bytes(parameter: str, port: str, shape: ShapeLike) -> ShapeLike:
    """The shape of a stream's `tdata`, which AXI4-Stream wants to be whole bytes.

    Parameters
    ----------
    parameter : str
        Which decides it, for the error.
    port : str
        Name of the stream.
    shape : ShapeLike
        Of its `tdata`.

    Raises
    ------
    ValueError
        If it is not.
    """
    width = Shape.cast(shape).width
    if width % 8:
        raise ValueError(f"{parameter} must make {port}_tdata whole bytes, not {width} bits")
    return shape


def converted_beat(fmt: MXFormat | FloatFormat, width: int, groups: int) -> data.StructLayout:
    """A beat of a converter: codes of all values, then the scales of their blocks, if there are.

    Parameters
    ----------
    fmt : MXFormat or FloatFormat
        Format of the codes; a scalar one has no scales.
    width : int
        Values in a beat.
    groups : int
        Blocks side by side in it.
    """
    if isinstance(fmt, FloatFormat):
        return data.StructLayout({"codes": data.ArrayLayout(fmt.width, width)})
    return data.StructLayout(
        {
            "codes": data.ArrayLayout(fmt.element.width, width),
            "scales": data.ArrayLayout(fmt.scale.width, groups),
        }
    )


def operand_beat(
    *, code_width: int, scale_width: int, lanes: int, count: int, anchor_width: int = 0
) -> data.StructLayout:
    """A beat of an operand stream: codes of all rows or columns, then the scale of each.

    Parameters
    ----------
    code_width, scale_width : int
        Bits of a code and of a scale; without scales 0.
    lanes : int
        Codes for each row or column.
    count : int
        Rows or columns.
    anchor_width : int
        Bits of an anchor, which come last; by default there are none.
    """
    fields = {"codes": data.ArrayLayout(data.ArrayLayout(code_width, lanes), count)}
    if scale_width:
        fields["scales"] = data.ArrayLayout(scale_width, count)
    if anchor_width:
        fields["anchors"] = data.ArrayLayout(anchor_width, count)
    return data.StructLayout(fields)
