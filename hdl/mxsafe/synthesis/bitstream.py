"""Bitstreams of boards: Yosys, nextpnr and ecppack, refused where the clock is not met.

Yosys maps the board's Verilog to ECP5. Cells with many sinks are copied
(`mxsafe.synthesis.copies`), and DSP blocks of an array get places (`mxsafe.synthesis.dsp_places`).
nextpnr places the rest once, for short wires; then memories and multipliers are spread over the
device (`mxsafe.synthesis.spread_blocks`), and it places the logic again and routes it, on the
board's pins. ecppack writes the bitstream, if all clocks of nextpnr's report are as fast as they
have to be.
"""

import json
import re
import subprocess
import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from mxsafe.rtl.board.ulx3s import CRYSTAL_MHZ, PINS, PLL_ATTRIBUTES, Ulx3s, Ulx3sConfiguration
from mxsafe.synthesis.first_calls import call_first
from mxsafe.synthesis.technologies import SynthesisError, check_wheel, command
from mxsafe.validation import require_count
from mxsafe.verilog.ecp5 import FLATTEN, dsp_sources
from mxsafe.verilog.generate import generate
from mxsafe.verilog.manifest import read_manifest
from mxsafe.verilog.parameters import without_parameters

_TOP = "ulx3s"
_PLACED = "placed.json"
_TOOLS = ("yosys", "nextpnr-ecp5", "ecppack")
_DEVICE = ("--85k", "--package", "CABGA381", "--speed", "6")
_SINKS = 48
"""Most pins that a register or look-up table drives: nets are long where a device is full."""
_COPIED = ("TRELLIS_FF.Q", "LUT4.Z")
"""Types of cells that are copied, each with its output."""
_ROUND = re.compile(r"iter=(?P<number>\d+) wires=\d+ overused=(?P<left>\d+)")
"""What router2 says of a round."""
_MOST_ROUNDS = 200
"""Rounds after which no more are waited for: designs that were routed took 136 at most."""
ALONE = (
    "accelerator_core",
    "_pu_",
    "softmax_core",
    "softmax_constants",
    "softmax_logarithm",
    "row_lane",
    "normalise_row",
    "_lane_pipeline",
    "block_converter",
    "vector_add",
    "serial_bridge",
    "register_copy",
    "fetch_",
)
"""Parts of the names of modules that are mapped each by itself.

Where one way is long, ABC9 takes fewer look-up tables everywhere else, until all ways of what it
maps are nearly as long. So ways of a unit shall not depend on those of another one.
"""
IN_BLOCKS = ("_sta_", "operand_buffer")
"""Parts of the names of modules whose memories are block RAM, however few entries these have.

Their beats are hundreds of bits, and go into registers at once. In look-up tables they would lie
where most wires are.
"""
_MEMORY = re.compile(r"^ *((?:\w+_)?beat_memory\w*) ", re.MULTILINE)
_FIXED = "fixed"
"""Folder of the Verilog that is synthesised: modules without parameters, whose names say all."""
_PATIENCE = 15.0
"""Seconds from one line of a tool that is shown to the next."""
_TAIL = 15
_KINDS = {
    "luts": "LUT4s",
    "ffs": "flip-flops",
    "memories": "block RAMs of 18 kbit",
    "dsps": "multipliers of 18x18",
}
_USED = {"luts": "TRELLIS_COMB", "ffs": "TRELLIS_FF", "memories": "DP16KD", "dsps": "MULT18X18D"}


@dataclass(frozen=True)
class Clock:
    """A clock of a design.

    Attributes
    ----------
    name : str
    reached, wanted : float
        MHz.
    """

    name: str
    reached: float
    wanted: float

    @property
    def is_met(self) -> bool:
        """Whether it is fast enough."""
        return self.reached >= self.wanted


@dataclass(frozen=True, kw_only=True)
class Bitstream:
    """A bitstream, and what it takes of the device.

    Attributes
    ----------
    path : Path
    clocks : tuple of Clock
    luts, ffs, memories, dsps : tuple of int
        Look-up tables, flip-flops, block RAMs of 18 kbit and multipliers: used, and all there are.
    """

    path: Path
    clocks: tuple[Clock, ...]
    luts: tuple[int, int]
    ffs: tuple[int, int]
    memories: tuple[int, int]
    dsps: tuple[int, int]

    @property
    def text(self) -> str:
        """Return the resources that it takes, a line for each."""
        parts = [str(self.path)]
        for name, what in _KINDS.items():
            used, there = getattr(self, name)
            parts.append(f"  {used:>6,} of {there:,} {what}")
        parts += [
            f"  {clock.reached:>6.1f} MHz reached of {clock.wanted:.1f} wanted: {clock.name}"
            for clock in self.clocks
        ]
        return "\n".join(parts)


def constraints() -> str:
    """A file of constraints (LPF) for nextpnr."""
    lines = []
    for pin in PINS:
        for bit, site in enumerate(pin.sites):
            port = pin.name if len(pin.sites) == 1 else f"{pin.name}[{bit}]"
            lines.append(f'LOCATE COMP "{port}" SITE "{site}";')
            lines.append(f'IOBUF PORT "{port}" IO_TYPE=LVCMOS33 {pin.options};')
    lines.append(f'FREQUENCY PORT "clk_25mhz" {CRYSTAL_MHZ} MHZ;')
    lines.append("SYSCONFIG COMPRESS_CONFIG=ON MCCLK_FREQ=62 SLAVE_SPI_PORT=DISABLE;")
    return "\n".join(lines) + "\n"


def read_report(text: str, clock_mhz: int) -> dict[str, object]:
    """Clocks and counts in nextpnr's report, by the names of the fields of `Bitstream`.

    All clocks are the machine's. One is wanted to reach `clock_mhz`, even if nextpnr was content
    with less.

    Raises
    ------
    SynthesisError
        If it is none.
    """
    try:
        report = json.loads(text)
        clocks = tuple(
            Clock(name, float(one["achieved"]), max(float(one["constraint"]), clock_mhz))
            for name, one in report["fmax"].items()
        )
        used = {
            name: (int(cell["used"]), int(cell["available"]))
            for name, kind in _USED.items()
            for cell in [report["utilization"][kind]]
        }
    except (ValueError, KeyError, TypeError, AttributeError):
        raise SynthesisError(f"nextpnr wrote no report: {text[:200]!r}") from None
    if not clocks:
        raise SynthesisError("nextpnr reported no clock")
    return {"clocks": clocks, **used}


def make_bitstream(
    configuration: Ulx3sConfiguration,
    folder: Path,
    *,
    seed: int = 1,
    progress: Callable[[str], object] = lambda line: None,
) -> Bitstream:
    """Make ``ulx3s.bit`` in a folder of its own, beside the Verilog and the logs of the tools.

    Parameters
    ----------
    configuration : Ulx3sConfiguration
        The board.
    folder : Path
        It is created; a bitstream in it is removed first.
    seed : int
        Of the placement, 0 or more; with the default one the default machine reaches its clock.
    progress : callable
        Called with a line for each step, and now and then with the last line of a tool.

    Raises
    ------
    ValueError
        If `seed` is not as above, or the folder has Verilog of another design, which stays.
    SynthesisError
        If a tool is missing or fails, or a clock is too slow: there is no bitstream then.
    """
    require_count("seed", seed)
    others = [top for top in read_manifest(folder).get("tops", []) if top != _TOP]
    if others:
        raise ValueError(
            f"folder must have Verilog of {_TOP} alone, but {folder} has that of "
            f"{', '.join(others[:3])}: take another"
        )
    for tool in _TOOLS:
        check_wheel("bitstream", tool)
    folder.mkdir(parents=True, exist_ok=True)
    made = folder / f"{_TOP}.bit"
    made.unlink(missing_ok=True)
    progress("preparing tools")
    quiet = subprocess.DEVNULL
    call_first(_TOOLS, partial(subprocess.call, stdin=quiet, stdout=quiet, stderr=quiet))
    progress("generating Verilog")
    # The tools' choices follow from names: the usual seed is good for these.
    manifest = generate([Ulx3s(configuration)], folder, prefix="", clean=True)
    listed = manifest["modules"][_TOP]["sources"]
    # What the script says of a memory is so of those of its size.
    texts = without_parameters({Path(file).stem: (folder / file).read_text() for file in listed})
    (folder / _FIXED).mkdir(exist_ok=True)
    sources = [f"{_FIXED}/{name}.v" for name in texts]
    for name, text in texts.items():
        (folder / _FIXED / f"{name}.v").write_text(text)
    blocks = dsp_sources(sources)
    for name, text in blocks.items():
        (folder / name).write_text(text)
    (folder / f"{_TOP}.lpf").write_text(constraints())
    script = [
        "read_verilog " + " ".join(sources),
        f"setattr -mod -set keep_hierarchy 1 {' '.join(mapped_alone(sources))}",
        *(f'setattr -set ram_style "block" {name}/m:*' for name in in_block_ram(folder, sources)),
        f"synth_ecp5 -no-rw-check -top {_TOP}",
        *FLATTEN,
        *(f'setattr -set {name} "{value}" t:EHXPLLL' for name, value in PLL_ATTRIBUTES.items()),
        f"write_json {_TOP}.json",
    ]
    (folder / f"{_TOP}.ys").write_text("\n".join(script) + "\n")
    _run(folder, "yosys", ("-s", f"{_TOP}.ys"), progress)
    netlist = f"{_TOP}.json"
    copies = ("-m", "mxsafe.synthesis.copies", netlist, netlist, "copies.json", str(_SINKS))
    _run(folder, "python", (*copies, *_COPIED), progress)
    _run(folder, "python", ("-m", "mxsafe.synthesis.dsp_places", netlist), progress)
    report = folder / "report.json"
    report.unlink(missing_ok=True)
    design = (
        *_DEVICE,
        *("--json", netlist, "--lpf", f"{_TOP}.lpf"),
        # Whether it is fast enough is looked at here, with a message of its own.
        *("--seed", str(seed), "--timing-allow-fail"),
    )
    first = ("--placer", "static", "--no-route", "--write", _PLACED)
    _run(folder, "nextpnr-ecp5", (*design, *first), progress)
    spread = ("-m", "mxsafe.synthesis.spread_blocks", _PLACED, netlist)
    _run(folder, "python", spread, progress)
    routed = ("--router", "router2", "--textcfg", f"{_TOP}.config", "--report", report.name)
    _run(folder, "nextpnr-ecp5", (*design, *routed), progress)
    found = read_report(report.read_text() if report.exists() else "", configuration.clock_mhz)
    _require_clocks(found["clocks"], folder)  # type: ignore[arg-type]
    part = folder / f"{_TOP}.bit.part"
    packing = ("--compress", "--input", f"{_TOP}.config", "--bit", part.name)
    try:
        _run(folder, "ecppack", packing, progress)
        part.replace(made)
    finally:
        part.unlink(missing_ok=True)
    return Bitstream(path=made, **found)  # type: ignore[arg-type]


def mapped_alone(sources: Iterable[str]) -> list[str]:
    """Modules of these files that are mapped each by itself; `FLATTEN` dissolves them then."""
    names = [Path(name).stem for name in sources]
    return [name for name in names if any(part in name for part in ALONE)]


def in_block_ram(folder: Path, sources: Iterable[str]) -> list[str]:
    """Modules of memories that are block RAM, of these files in a folder."""
    users = [name for name in sources if any(part in name for part in IN_BLOCKS)]
    texts = [(folder / name).read_text() for name in users]
    return sorted({module for text in texts for module in _MEMORY.findall(text)})


def _require_clocks(clocks: Iterable[Clock], folder: Path) -> None:
    slow = [clock for clock in clocks if not clock.is_met]
    if slow:
        said = ", ".join(f"{c.name} reaches {c.reached:.2f} of {c.wanted:.2f} MHz" for c in slow)
        raise SynthesisError(
            f"the timing is not met: {said}. There is no bitstream: take a lower clock or another "
            f"seed; paths are in {folder / 'nextpnr-ecp5.log'}"
        )


def _run(
    folder: Path, tool: str, arguments: tuple[str, ...], progress: Callable[[str], object]
) -> None:
    """Run a tool in the folder, with what it says in ``<tool>.log`` there."""
    log, start = folder / f"{tool}.log", time.monotonic()
    progress(f"{tool} begins")
    shown = start
    with (
        # A line at a time, so that it can be watched.
        log.open("w", buffering=1) as file,
        subprocess.Popen(
            [*command(tool), *arguments],
            cwd=folder,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            errors="replace",
        ) as process,
    ):
        assert process.stdout is not None
        for line in process.stdout:
            file.write(line)
            round_ = _ROUND.search(line)
            if round_ and int(round_["number"]) > _MOST_ROUNDS:
                process.kill()
                raise SynthesisError(
                    f"{tool} must route all wires in {_MOST_ROUNDS} rounds, but {round_['left']} "
                    f"are still used twice: take another seed or a smaller machine, log {log}"
                )
            now = time.monotonic()
            if now - shown > _PATIENCE and line.strip():
                progress(f"{tool} {now - start:5.0f} s  {line.strip()[:90]}")
                shown = now
    if process.returncode:
        tail = "".join(log.read_text(errors="replace").splitlines(keepends=True)[-_TAIL:])
        raise SynthesisError(f"{tool} ended with code {process.returncode}, log {log}\n{tail}")
    progress(f"{tool} done in {time.monotonic() - start:.0f} s")
