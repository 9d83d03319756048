"""Layouts of the beats that units hand each other over streams.

Tested by `verif/rtl/stream/test_converter.py`.
"""

from amaranth.lib import data

from mxsafe.formats import FloatFormat, MXFormat


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
