"""Power of mapped netlists from what they do on given operands.

The netlist is simulated at gate level (Icarus Verilog) with the delays that OpenSTA computes for
every cell, so that glitches are there, cycle for cycle beside the Verilog it was made from: an
output that differs is an error. Every change of every cell's output is counted, and each costs
what the cell library says:

- *switching*: half of C V^2 for the load, which is the pins it drives (and what the timing script
  puts on outputs of the unit); the clock's own pins are charged and discharged every cycle;
- *internal*: the library's energies by transition time and load, for outputs the mean over the
  paths to them, and for pins of registers and clock gates by the state they are in;
- *leakage*: the mean over the states of a cell, times the clock period.

A memory stands beside the netlist as its Verilog: what it takes and gives is compared and loaded
like outputs and inputs of the unit, and its own energy is not counted.

What is not there: loads of wires, unless they are given, and what buffers they need, the buffers of
the clock tree, memories, and the energy that drives the unit's inputs. The clock is ideal, the
corner typical, 25 degrees, 1.1 V.

OpenSTA's own `report_power` is not used: version 2.0.17 reads no activities, replaces those set for
pins inside a design by estimates, and takes every gated clock for a running one. Where a clock gate
drives registers without a clock tree, it extrapolates their transition times to nanoseconds and the
library's energies with them: ten times that of an edge in its tables, at whose border we stay.

What tools say that know no operands stands beside, of the same netlist, cells and loads
(`mxsafe.synthesis.vectorless`).
"""

import hashlib
import json
import math
import shutil
import subprocess
import sys
import zipfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from mxsafe.synthesis import gates, liberty, memories, parasitics, switching, vectorless
from mxsafe.synthesis.memories import Macro, read_macros
from mxsafe.synthesis.switching import SETTLED, Bits, PowerError
from mxsafe.synthesis.technologies import (
    DRIVER,
    LOAD_FF,
    Design,
    Nangate45,
    Numbers,
    Recipe,
    Step,
    SynthesisError,
)
from mxsafe.verilog.constraints import VARIABLE, constraints

PERIOD = 2.0
"""Clock period of netlists that are fast enough for it, ns: the paper's."""
INPUTS_AFTER = 0.05
"""From an edge of the clock to the inputs of its period, ns."""


@dataclass(frozen=True, kw_only=True)
class Stimulus:
    """Stimulus for the inputs of a unit.

    Attributes
    ----------
    rows : Mapping
        For each input but the clock, little-endian bytes, a row a cycle, shape (cycles, bytes).
    skipped : int
        Cycles at the start that are simulated but not counted.
    results : int
        Numbers that are done with in the cycles that are counted; 0 if none are told.
    windows : int
        Parts of the cycles that are counted, equally long, in which the unit does the same.
    """

    rows: Mapping[str, NDArray[np.uint8]]
    skipped: int
    results: int = 0
    windows: int = 4


def usual_netlist(numbers: Mapping[str, Mapping[str, Any]]) -> str:
    """Name of the smallest netlist that runs at the default period, or of the fastest.

    Parameters
    ----------
    numbers : Mapping
        ``ge`` and ``delay_ns`` of each netlist.
    """
    quick = [name for name in numbers if numbers[name]["delay_ns"] <= PERIOD]
    if quick:
        return min(quick, key=lambda name: float(numbers[name]["ge"]))
    return min(numbers, key=lambda name: float(numbers[name]["delay_ns"]))


RESET = 2
"""Cycles of reset at the start of a stimulus."""


def check_stimulus(stimulus: Stimulus, inputs: Mapping[str, int]) -> int:
    """Number of cycles of a stimulus that fits a unit.

    Raises
    ------
    ValueError
        If an input is missing or has another width, or nothing is left to count.
    """
    if sorted(stimulus.rows) != sorted(inputs):
        raise ValueError(f"stimulus must be for {sorted(inputs)}, not {sorted(stimulus.rows)}")
    clocks = {len(rows) for rows in stimulus.rows.values()}
    if len(clocks) != 1:
        raise ValueError(f"stimulus must have equally many rows for all inputs, not {clocks}")
    for name, width in inputs.items():
        if stimulus.rows[name].shape[1] != -(-width // 8):
            raise ValueError(
                f"stimulus must have {-(-width // 8)} bytes a row for {name}, "
                f"not {stimulus.rows[name].shape[1]}"
            )
    (count,) = clocks
    if not RESET <= stimulus.skipped < count - 1:
        raise ValueError(
            f"skipped must be from {RESET} to fewer than the {count} cycles, not {stimulus.skipped}"
        )
    if not 2 <= stimulus.windows <= count - stimulus.skipped:
        raise ValueError(
            f"windows must be from 2 to the {count - stimulus.skipped} cycles that are counted, "
            f"not {stimulus.windows}"
        )
    return count


def read_stimuli(folder: Path) -> dict[str, Stimulus]:
    """Stimuli of a folder by module: a file ``<module>.npz`` each.

    Parameters
    ----------
    folder : Path
        Folder; in each file an array for every input, as `Stimulus.rows` has it, and ``skipped``.

    Raises
    ------
    ValueError
        If there is none, or a file is not a stimulus.
    """
    stimuli = {}
    for path in sorted(folder.glob("*.npz")):
        try:
            # NumPy itself would leave a file open that is no archive.
            with path.open("rb") as file, np.load(file) as archive:
                rows = {name: archive[name] for name in archive.files}
            skipped = int(rows.pop("skipped"))
            results = int(rows.pop("results", 0))
            windows = int(rows.pop("windows", Stimulus.windows))
        except (OSError, ValueError, KeyError, TypeError, zipfile.BadZipFile) as error:
            raise ValueError(f"{path} must be a stimulus: {error}") from None
        if any(array.dtype != np.uint8 or array.ndim != 2 for array in rows.values()):
            raise ValueError(f"{path} must be a stimulus: rows of bytes for every input")
        stimuli[path.stem] = Stimulus(rows=rows, skipped=skipped, results=results, windows=windows)
    if not stimuli:
        raise ValueError(f"{folder} must hold stimuli, but there is no .npz file")
    return stimuli


def standard_error(energies: Sequence[float], windows: int) -> float:
    """Standard error of the mean energy of a cycle, relative to it, from equally long parts."""
    means = np.array([part.mean() for part in np.array_split(np.array(energies), windows)])
    return float(means.std(ddof=1) / math.sqrt(windows) / means.mean())


def input_bits(stimulus: Stimulus, inputs: Mapping[str, int]) -> dict[str, Bits]:
    """Bits of every input, lowest first, shape (cycles, width)."""
    return {
        name: np.unpackbits(
            np.ascontiguousarray(stimulus.rows[name]), axis=1, count=width, bitorder="little"
        ).astype(bool)
        for name, width in inputs.items()
    }


def memory(stimulus: Stimulus, inputs: Mapping[str, int]) -> str:
    """The stimulus for ``$readmemb``: a word a cycle, the first input in the highest bits."""
    bits = input_bits(stimulus, inputs)
    words = np.concatenate([bits[name][:, ::-1] for name in inputs], axis=1)
    return "".join("".join("1" if bit else "0" for bit in row) + "\n" for row in words.tolist())


def bench(
    top: str,
    inputs: Mapping[str, int],
    outputs: Mapping[str, int],
    *,
    clocks: int,
    skipped: int,
    period: float,
    log: str,
    macros: Sequence[Macro] = (),
    is_netlist: bool = False,
) -> str:
    """Verilog that runs a stimulus and writes the outputs as they are before each rising edge.

    Parameters
    ----------
    top : str
        The unit.
    inputs, outputs : Mapping
        Widths.
    clocks, skipped : int
        Cycles in all, and those before changes are recorded.
    period : float
        ns.
    log : str
        File for the outputs, and for what memories take and give.
    macros : sequence of Macro
        Memories inside the unit, which stand beside its netlist.
    is_netlist : bool
        Memories stand beside the unit, and changes are recorded of all that is in it.
    """
    width = sum(inputs.values())
    beside = memory_pins(macros) if is_netlist else {}
    ports = ", ".join(f".{name}({name})" for name in ["clk", "rst", *inputs, *outputs, *beside])
    drive = "{" + ", ".join(inputs) + "}"
    pins = [
        f"{macro.name}_{pin}" if is_netlist else f"unit.{macro.path}.{pin}"
        for macro in macros
        for pin in (*macro.inputs, *macro.outputs)
    ]
    # Outputs of cells are what counts, but a call for each of them takes time with their square.
    record = f"""\
  initial begin
    $dumpfile("changes.vcd");
    #{skipped * period - SETTLED:.3f} $dumpvars(0, unit);
  end
"""
    return f"""\
`timescale 1ns/1ps
module bench;
  reg clk = 0, rst = 1;
{_declared("reg", inputs)}
{_declared("wire", {**outputs, **beside})}
  reg [{width - 1}:0] rows [0:{clocks - 1}];
  integer row, log;
  {top} unit ({ports});
{_placed(macros) if beside else ""}  initial begin
    $readmemb("stimulus.bits", rows);
    log = $fopen("{log}", "w");
    {drive} = rows[0];
    for (row = 0; row < {clocks}; row = row + 1) begin
      // A rising edge is at each multiple of the period; inputs follow it at once.
      #{INPUTS_AFTER} {drive} = rows[row]; rst = row < {RESET};
      #{period / 2 - INPUTS_AFTER:.3f} clk = 0;
      #{period / 2 - SETTLED:.3f} $fwrite(log, "%b\\n", {{{", ".join([*outputs, *pins])}}});
      #{SETTLED:.3f} clk = 1;
    end
    $fclose(log);
    $finish;
  end
{record if is_netlist else ""}endmodule
"""


def memory_pins(macros: Sequence[Macro]) -> dict[str, int]:
    """Widths of what memories take and give, by the name of the netlist's port."""
    return {name: n for m in macros for name, n in {**m.out_of_unit, **m.into_unit}.items()}


def _placed(macros: Sequence[Macro]) -> str:
    """Memories as instances beside a netlist."""
    lines = []
    for macro in macros:
        pins = [f".{pin}({macro.name}_{pin})" for pin in (*macro.inputs, *macro.outputs)]
        lines.append(f"  {macro.module} {macro.name} (.clk(clk), .rst(rst), {', '.join(pins)});\n")
    return "".join(lines)


def _declared(kind: str, widths: Mapping[str, int]) -> str:
    return "\n".join(f"  {kind} [{width - 1}:0] {name};" for name, width in widths.items())


def flatten_script(top: str) -> str:
    """Yosys commands that make one module of a netlist whose parts were synthesised once."""
    return f"""\
read_liberty -lib -ignore_miss_func stdcells.lib
read_verilog whole.v
hierarchy -check -top {top}
flatten
splitnets
opt_clean -purge
write_verilog -noattr -noexpr -nohex -nodec -simple-lhs netlist.v
"""


def delays_script(top: str, period: float, *, wires: bool = False) -> str:
    """OpenSTA commands that write delays, and the transition times of all drivers.

    With wires, those in ``wires.spef`` delay too.
    """
    return f"""\
read_liberty stdcells.lib
read_verilog netlist.v
link_design {top}
set {VARIABLE} {period:g}
{constraints(top, clocked=True)}
set_driving_cell -lib_cell {DRIVER} [all_inputs]
set_load {LOAD_FF} [all_outputs]
{"read_spef wires.spef" if wires else ""}
write_sdf -no_timestamp -digits 4 delays.sdf
set file [open slews.txt w]
foreach pin [get_pins */*] {{
  puts $file "[get_full_name $pin] [get_property $pin actual_rise_transition_max]\\
[get_property $pin actual_fall_transition_max]"
}}
close $file
"""


def compare_outputs(expected: str, found: str, outputs: Mapping[str, int], skipped: int) -> int:
    """Compare what the netlist put out with what the Verilog did, after the cycles skipped.

    Returns
    -------
    int
        Cycles compared.

    Raises
    ------
    PowerError
        If they differ, or are not known.
    """
    rows, others = expected.split(), found.split()
    if len(rows) != len(others) or len(rows) <= skipped:
        raise PowerError(f"the netlist put out {len(others)} rows, the Verilog {len(rows)}")
    places = [(name, bit) for name, width in outputs.items() for bit in reversed(range(width))]
    for clock in range(skipped, len(rows)):
        for which, row in (("Verilog", rows[clock]), ("netlist", others[clock])):
            if set(row) - {"0", "1"}:
                name, bit = places[next(i for i, mark in enumerate(row) if mark not in "01")]
                raise PowerError(f"{name}[{bit}] of the {which} has no value in cycle {clock}")
        if rows[clock] != others[clock]:
            pairs = zip(rows[clock], others[clock], strict=True)
            name, bit = places[next(i for i, (a, b) in enumerate(pairs) if a != b)]
            raise PowerError(
                f"{name}[{bit}] of the netlist differs from that of the Verilog in cycle {clock}"
            )
    return len(rows) - skipped


class Power:
    """Power of one netlist on one stimulus: a job like those of the technologies.

    Parameters
    ----------
    netlist : str
        Mapped to NanGate 45 nm.
    stimulus : Stimulus
    delay : float
        Its longest path, ns.
    macros : str, optional
        The memories that were taken out of it, as `mxsafe.synthesis.memories.main` lists them.
    wires : str, optional
        Its wires, as `mxsafe.synthesis.parasitics.write_spef` writes them.
    """

    name = "power"

    def __init__(
        self,
        netlist: str,
        stimulus: Stimulus,
        delay: float,
        macros: str | None = None,
        *,
        wires: str | None = None,
    ) -> None:
        self._netlist, self._stimulus, self._macros = netlist, stimulus, macros
        self._wires = wires
        self.period = max(PERIOD, math.ceil(20 * (delay + INPUTS_AFTER)) / 20)

    @staticmethod
    def check() -> None:
        """Raise SynthesisError if something is not installed; the message says what to install."""
        for program in ("iverilog", "vvp"):
            if shutil.which(program) is None:
                raise SynthesisError(
                    f"power needs the program {program}: install Icarus Verilog "
                    "(the Debian package iverilog)"
                )

    @staticmethod
    def versions() -> dict[str, str]:
        """Versions of the tools that the numbers depend on beside those of synthesis."""
        run = subprocess.run(["iverilog", "-V"], capture_output=True, text=True, check=False)
        lines = (run.stdout + run.stderr).splitlines()
        found = [line.split()[3] for line in lines if line.startswith("Icarus Verilog version")]
        return {"iverilog": "".join(found[:1])}

    def recipe(self, design: Design) -> Recipe:
        """Return the recipe for a design."""
        count = check_stimulus(self._stimulus, design.inputs)
        library = Nangate45().library()
        assert library is not None
        settings: dict[str, Any] = {
            "top": design.top,
            "inputs": dict(design.inputs),
            "outputs": dict(design.outputs),
            "clocks": count,
            "skipped": self._stimulus.skipped,
            "period": self.period,
        }
        macros = read_macros(self._macros or "[]")
        own_module = sys.modules[__name__]
        modules = (gates, liberty, memories, parasitics, switching, vectorless, own_module)
        code = b"".join(Path(str(module.__file__)).read_bytes() for module in modules)
        own = ("-m", "mxsafe.synthesis.power")
        sources = sorted(design.sources)
        beside = sorted({f"{macro.module}.v" for macro in macros})
        return Recipe(
            files={
                **design.sources,
                **(
                    {"whole.v": self._netlist, "flatten.ys": flatten_script(design.top)}
                    if design.kept
                    else {"netlist.v": self._netlist}
                ),
                "settings.json": json.dumps(settings),
                # Numbers depend on this code too.
                "code.sha256": hashlib.sha256(code).hexdigest(),
                "stimulus.bits": memory(self._stimulus, design.inputs),
                "macros.json": self._macros or "[]",
                "delays.tcl": delays_script(design.top, self.period, wires=self._wires is not None),
                "wires.spef": self._wires or "",
                "verilog_bench.v": bench(**settings, log="verilog.bits", macros=macros),
            },
            copies={"stdcells.lib": library},
            steps=(
                *([Step("yosys", ("-q", "-s", "flatten.ys"))] if design.kept else []),
                Step("iverilog", ("-g2005", "-o", "verilog.vvp", "verilog_bench.v", *sources)),
                Step("vvp", ("-n", "verilog.vvp")),
                Step("sta", ("-exit", "delays.tcl")),
                Step("python", (*own, "prepare")),
                Step("iverilog", ("-g2005", "-o", "netlist.vvp", "gates.v", *beside)),
                Step("vvp", ("-n", "netlist.vvp")),
                Step("python", (*own, "sum")),
            ),
            results=("power.json",),
        )

    def read(self, design: Design, results: Mapping[str, str]) -> dict[str, Numbers]:
        """Energies of a cycle, pJ: of registers (with clock gates and clock pins) and of logic.

        And of a result, where the stimulus says how many come out; and of a cycle by activity, if
        nothing is simulated, with clock gates that are open in half of the cycles or in all.
        """
        try:
            found = json.loads(results["power.json"])
            parts = {
                name: {kind: float(sums[kind]) for kind in ("internal", "switching", "leakage")}
                for name, sums in found["sums"].items()
            }
            of_clocks = [float(energy) for energy in found["of_clocks"]]
            clocks, nets = len(of_clocks), int(found["nets"])
            changes, checked = float(found["changes_per_net"]), int(found["outputs_compared"])
            supposed: dict[str, Numbers] = {
                name: {activity: round(float(energy), 4) for activity, energy in of.items()}
                for name, of in found["vectorless"].items()
            }
        except (ValueError, KeyError, TypeError):
            raise SynthesisError(
                f"no energies of {design.top} in: {results['power.json'][:200]!r}"
            ) from None
        total = sum(sum(part.values()) for part in parts.values())
        if not changes > 0.0:
            raise SynthesisError(f"no net of {design.top} changed in the {clocks} cycles counted")
        if not (math.isfinite(total) and total > 0.0):
            raise SynthesisError(f"{design.top} must take some energy, not {total} pJ a cycle")
        numbers: dict[str, Numbers] = {
            name: {f"{kind}_pj": round(value, 4) for kind, value in part.items()}
            for name, part in parts.items()
        }
        numbers |= supposed
        numbers["clock"] = {
            "total_pj": round(total, 4),
            "period_ns": self.period,
            "clocks": clocks,
            "standard_error": round(standard_error(of_clocks, self._stimulus.windows), 6),
            "nets": nets,
            "changes_per_net": round(changes, 4),
            "outputs_compared": checked,
        }
        if self._stimulus.results:
            share = total * clocks / self._stimulus.results
            numbers["result"] = {"total_pj": round(share, 4), "count": self._stimulus.results}
        return numbers


def _prepare(folder: Path) -> None:
    """Write the bench, the netlist with its delays, and the models of its cells to one file."""
    settings = json.loads((folder / "settings.json").read_text())
    netlist = (folder / "netlist.v").read_text()
    instances = gates.read_instances(netlist)
    cells = _cells(folder, instances)
    delays = gates.read_delays((folder / "delays.sdf").read_text())
    macros = read_macros((folder / "macros.json").read_text())
    texts = [
        bench(**settings, log="netlist.bits", macros=macros, is_netlist=True),
        gates.annotated(netlist, delays, cells),
        gates.models(cells.values()),
    ]
    (folder / "gates.v").write_text("\n".join(texts))


def _cells(folder: Path, instances: Sequence[gates.Instance]) -> dict[str, liberty.Cell]:
    return liberty.read_cells((folder / "stdcells.lib").read_text(), gates.kinds(instances))


def _sum(folder: Path) -> None:
    """Write ``power.json``, after the outputs of netlist and Verilog were compared."""
    settings = json.loads((folder / "settings.json").read_text())
    clocks, skipped, period = (settings[name] for name in ("clocks", "skipped", "period"))
    macros = read_macros((folder / "macros.json").read_text())
    seen = {**settings["outputs"], **memory_pins(macros)}
    put_out = (folder / "netlist.bits").read_text()
    compared = compare_outputs((folder / "verilog.bits").read_text(), put_out, seen, skipped)
    instances = gates.read_instances((folder / "netlist.v").read_text())
    cells = _cells(folder, instances)
    wanted = [
        (instance.name.lstrip("\\"), pin)
        for instance in instances
        for pin in cells[instance.kind].outputs
        if instance.pins.get(pin)
    ]
    with (folder / "changes.vcd").open() as lines:
        changes = switching.read_changes(
            lines, wanted, period=period, skipped=skipped, clocks=clocks
        )
    slews = {}
    for line in (folder / "slews.txt").read_text().splitlines():
        pin, rise, fall = line.split()
        slews[pin] = (float(rise), float(fall))
    counted = slice(skipped - 1, clocks)
    inputs = _taken_apart(
        (folder / "stimulus.bits").read_text().split()[counted], settings["inputs"]
    )
    given = {name for macro in macros for name in macro.into_unit}
    from_unit = _taken_apart(put_out.split()[counted], seen)
    inputs |= {name: from_unit[name] for name in seen if name in given}
    outputs = [
        f"{name}[{bit}]" if width > 1 else name
        for name, width in seen.items()
        if name not in given
        for bit in range(width)
    ]
    circuit = switching.Circuit(
        instances=instances,
        cells=cells,
        slews=slews,
        outputs=outputs,
        load=LOAD_FF,
        wires=parasitics.read_loads((folder / "wires.spef").read_text()),
    )
    sums = switching.sum_energies(circuit, changes, inputs)
    supposed = {
        name: vectorless.vectorless_energies(circuit, gates_open=gates_open, period=period)
        for name, gates_open in (("vectorless", False), ("vectorless_gates_open", True))
    }
    changed = (changes.rises.sum() + changes.falls.sum()) / changes.rises.size
    report = {
        "sums": {
            name: {
                "internal": float(part.internal.mean()) / 1000,
                "switching": float(part.switching.mean()) / 1000,
                "leakage": part.leakage * period * 1e-6,
            }
            for name, part in sums.items()
        },
        "of_clocks": sum(
            (part.internal + part.switching) / 1000 + part.leakage * period * 1e-6
            for part in sums.values()
        ).tolist(),
        "nets": len(changes.names),
        "changes_per_net": changed,
        "outputs_compared": compared,
        "vectorless": {
            name: dict(zip(map(str, vectorless.ACTIVITIES), energies, strict=True))
            for name, energies in supposed.items()
        },
    }
    (folder / "power.json").write_text(json.dumps(report))


def _taken_apart(rows: Sequence[str], widths: Mapping[str, int]) -> dict[str, Bits]:
    """Bits of every name, lowest first, of rows with the first name in the highest bits."""
    found: dict[str, Bits] = {}
    place = 0
    for name, width in widths.items():
        words = [row[place : place + width][::-1] for row in rows]
        found[name] = np.array([[mark == "1" for mark in word] for word in words])
        place += width
    return found


def main(step: str) -> None:
    """Take a step of the recipe in the folder that is the current one."""
    try:
        {"prepare": _prepare, "sum": _sum}[step](Path())
    except (PowerError, ValueError) as error:
        sys.exit(f"power: {error}")


if __name__ == "__main__":
    main(*sys.argv[1:])
