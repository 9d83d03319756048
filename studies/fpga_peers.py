"""``python -m studies.fpga_peers peers.json``: others' units on FPGAs, in the flow of ours.

Two are yardsticks that stand here, in int8 without scales. Others' sources are not part of this
project; ``--peer-sources DIR`` names a folder with copies of them:

``HardFloat/``
    Berkeley HardFloat, Release 1 in Verilog, by John R. Hauser
    (https://www.jhauser.us/arithmetic/HardFloat.html).
``MX-for-FPGA/``
    https://github.com/ebby-s/MX-for-FPGA.
"""

import argparse
import re
import sys
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from mxsafe.rtl.arithmetic.dsp_multiplier import DspMultiplier, DspMultiplierConfiguration
from mxsafe.synthesis.run import measure
from mxsafe.synthesis.technologies import Design
from mxsafe.verilog.convert import elaborate_all, to_verilog
from studies.pages import keep

TECHNOLOGIES = ("ecp5", "xilinx")
_MULTIPLIER = DspMultiplierConfiguration(signed=True, reset=False)

_INT8_MAC = """\
// A yardstick, not part of the product: four int8 products a cycle into an int32 sum.
module int8_mac (
  input clk, input rst, input en, input first,
  input [31:0] a, input [31:0] w, output reg [31:0] sum
);
  wire signed [35:0] product [0:3];
  reg signed [16:0] low, high;
  reg signed [17:0] four;
  reg [4:0] firsts;
  genvar lane;
  generate
    for (lane = 0; lane < 4; lane = lane + 1) begin : lanes
      wire signed [7:0] a_lane = a[8 * lane +: 8], w_lane = w[8 * lane +: 8];
      wire signed [17:0] a_wide = a_lane, w_wide = w_lane;
      multiplier_18x18_signed multiply (
        .clk(clk), .rst(rst), .en(en), .a(a_wide), .b(w_wide), .product(product[lane])
      );
    end
  endgenerate
  always @(posedge clk)
    if (en) begin
      low <= $signed(product[0][15:0]) + $signed(product[1][15:0]);
      high <= $signed(product[2][15:0]) + $signed(product[3][15:0]);
      four <= low + high;
      firsts <= {firsts[3:0], first};
      sum <= (firsts[4] ? 32'd0 : sum) + {{14{four[17]}}, four};
    end
endmodule
"""
_INT8_ARRAY = """\
// A yardstick: 4x4 such MACs, to which operands come through their neighbours, a cycle later each.
module int8_array (
  input clk, input rst, input en, input first,
  input [127:0] a, input [127:0] w, output [511:0] sums
);
  wire [32:0] across [0:3][0:4];
  wire [31:0] down [0:4][0:3];
  genvar row, column;
  generate
    for (row = 0; row < 4; row = row + 1) begin : edges
      reg [33 * row + 32:0] a_skew;
      reg [32 * row + 31:0] w_skew;
      always @(posedge clk)
        if (en) begin
          a_skew <= {a_skew, first, a[32 * row +: 32]};
          w_skew <= {w_skew, w[32 * row +: 32]};
        end
      assign across[row][0] = a_skew[33 * row +: 33];
      assign down[0][row] = w_skew[32 * row +: 32];
    end
    for (row = 0; row < 4; row = row + 1) begin : rows
      for (column = 0; column < 4; column = column + 1) begin : columns
        reg [32:0] a_next;
        reg [31:0] w_next;
        always @(posedge clk)
          if (en) begin
            a_next <= across[row][column];
            w_next <= down[row][column];
          end
        assign across[row][column + 1] = a_next;
        assign down[row + 1][column] = w_next;
        int8_mac mac (
          .clk(clk), .rst(rst), .en(en), .first(across[row][column][32]),
          .a(across[row][column][31:0]), .w(down[row][column]),
          .sum(sums[32 * (4 * row + column) +: 32])
        );
      end
    end
  endgenerate
endmodule
"""
_HARDFLOAT = """\
module hardfloat_mac (input [43:0] a, input [43:0] w, output [12:0] sum);
  wire [10:0] product [0:3];
  wire [12:0] low, high;
  genvar lane;
  generate
    for (lane = 0; lane < 4; lane = lane + 1) begin : lanes
      mulRecFN #(4, 6) multiply (
        .control(1'b1), .a(a[11 * lane +: 11]), .b(w[11 * lane +: 11]), .roundingMode(3'b0),
        .out(product[lane]), .exceptionFlags()
      );
    end
  endgenerate
  addRecFN #(4, 8) add_low (
    .control(1'b1), .subOp(1'b0), .a({product[0], 2'b0}), .b({product[1], 2'b0}),
    .roundingMode(3'b0), .out(low), .exceptionFlags()
  );
  addRecFN #(4, 8) add_high (
    .control(1'b1), .subOp(1'b0), .a({product[2], 2'b0}), .b({product[3], 2'b0}),
    .roundingMode(3'b0), .out(high), .exceptionFlags()
  );
  addRecFN #(4, 8) add (
    .control(1'b1), .subOp(1'b0), .a(low), .b(high), .roundingMode(3'b0), .out(sum),
    .exceptionFlags()
  );
endmodule
"""
# dot_fp itself has arrays of ports, which Yosys does not read: these are the units in it.
_MX_FOR_FPGA = """\
module mx_dot (input [31:0] a, input [31:0] w, output [{last}:0] dot);
  wire signed [{last_of_product}:0] product [0:3];
  genvar lane;
  generate
    for (lane = 0; lane < 4; lane = lane + 1) begin : lanes
      mul_fp #(.exp_width({exponent}), .man_width({mantissa})) multiply (
        .i_op0(a[8 * lane +: 8]), .i_op1(w[8 * lane +: 8]), .o_prd(product[lane])
      );
    end
  endgenerate
  wire signed [{last_of_product} + 1:0] low = product[0] + product[1];
  wire signed [{last_of_product} + 1:0] high = product[2] + product[3];
  wire signed [{last}:0] all = low + high;
  assign dot = all;
endmodule
"""


@dataclass(frozen=True)
class Peer:
    """A design of others, or a yardstick.

    Attributes
    ----------
    name : str
    origin : str
        Where it comes from.
    products : int
        Products a cycle.
    design : Design
    """

    name: str
    origin: str
    products: int
    design: Design


def yardsticks() -> list[Peer]:
    """A MAC in int8 and an array of it, made of the multiplier that ours have."""
    unit = DspMultiplier(_MULTIPLIER)
    (module,) = elaborate_all([unit]).values()
    multiplier = {f"{unit.module_name}.v": to_verilog(module.rtlil)}
    flags = {"en": 1, "first": 1}
    mac = Design(
        top="int8_mac",
        sources={**multiplier, "int8_mac.v": _INT8_MAC},
        clocked=True,
        inputs={**flags, "a": 32, "w": 32},
        outputs={"sum": 32},
        scripts=("dsps",),
        seeds=3,
    )
    array = replace(
        mac,
        top="int8_array",
        sources={**mac.sources, "int8_array.v": _INT8_ARRAY},
        inputs={**flags, "a": 128, "w": 128},
        outputs={"sums": 512},
    )
    origin = "yardstick, in studies/fpga_peers.py"
    return [
        Peer("int8 MAC of four lanes, int32 sum", origin, 4, mac),
        Peer("systolic array of 4x4 of these", origin, 64, array),
    ]


def others(folder: Path) -> Iterator[Peer]:
    """Units of others, from copies of their sources.

    Raises
    ------
    FileNotFoundError
        If a source is not there.
    """
    files = ("HardFloat_primitives", "isSigNaNRecFN", "HardFloat_rawFN", "addRecFN", "mulRecFN")
    source = folder / "HardFloat" / "source"
    paths = [source, source / "RISCV"]
    hardfloat = "\n".join(_included(source / f"{name}.v", paths) for name in files)
    yield Peer(
        "four E4M5 multipliers, three E4M7 adders, recoded operands",
        "Berkeley HardFloat",
        4,
        _between("hardfloat_mac", hardfloat + _HARDFLOAT, ({"a": 44, "w": 44}, {"sum": 13})),
    )
    arithmetic = folder / "MX-for-FPGA" / "src" / "util" / "arith"
    texts = ((arithmetic / f"{name}.sv").read_text() for name in ("mul_int", "mul_fp"))
    units = "\n".join(texts)
    for exponent, mantissa in ((2, 5), (4, 3)):
        width = 2 * ((1 << exponent) + mantissa)
        top = _MX_FOR_FPGA.format(
            last=width + 1, last_of_product=width - 1, exponent=exponent, mantissa=mantissa
        )
        yield Peer(
            f"exact dot product of four E{exponent}M{mantissa}",
            "MX-for-FPGA",
            4,
            _between("mx_dot", units + top, ({"a": 32, "w": 32}, {"dot": width + 2})),
        )


def _between(top: str, text: str, ports: tuple[dict[str, int], dict[str, int]]) -> Design:
    """A design of gates alone."""
    inputs, outputs = ports
    return Design(
        top=top,
        sources={f"{top}.sv": text},
        clocked=False,
        inputs=inputs,
        outputs=outputs,
    )


def _included(path: Path, folders: Sequence[Path]) -> str:
    """A file with the files that it includes in it."""

    def included(match: re.Match[str]) -> str:
        candidates = [folder / match.group(1) for folder in folders]
        found = next((each for each in candidates if each.exists()), candidates[0])
        return _included(found, folders)

    return re.sub(r'^`include "(.+)"$', included, path.read_text(), flags=re.MULTILINE)


def main(arguments: Sequence[str]) -> None:
    """Measure the yardstick, and others where their sources are."""
    parser = argparse.ArgumentParser(prog="python -m studies.fpga_peers")
    parser.add_argument("out", type=Path, help="file to write")
    parser.add_argument(
        "--peer-sources", type=Path, metavar="DIR", help="folder of others' sources"
    )
    args = parser.parse_args(arguments)
    peers = [*yardsticks(), *(others(args.peer_sources) if args.peer_sources else ())]
    numbers = measure(
        {f"{peer.origin}: {peer.name}": peer.design for peer in peers},
        TECHNOLOGIES,
        progress=lambda line: print(line, file=sys.stderr, flush=True),
    )
    found = [
        {
            "name": peer.name,
            "origin": peer.origin,
            "products": peer.products,
            "numbers": numbers[f"{peer.origin}: {peer.name}"],
        }
        for peer in peers
    ]
    keep(args.out, found, indent=2)


if __name__ == "__main__":
    main(sys.argv[1:])
