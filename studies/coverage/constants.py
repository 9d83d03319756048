"""Bits of nets in the generated Verilog that cannot change."""

import hashlib
import json
import re
import tempfile
import time
from collections.abc import Collection, Mapping
from pathlib import Path

from verif.support.manifest import GEN, Module, named
from verif.support.proof import run_abc, run_yosys

Bit = tuple[int, int]
"""Line in which a net of a module is declared, and number of one of its bits."""

_DECLARED_AT = re.compile(r"gen/(?:parts/)?(\w+)\.v:(\d+)\.")
_HEAD = re.compile(r"^module (\w+)\((.*?)\);\n", re.MULTILINE | re.DOTALL)
_PORT = re.compile(r"^  (input|output) (?:\[\d+:\d+\] )?(\\\S+ |\w+) ?;\n", re.MULTILINE)
_PART = re.compile(r"^  (\w+) (?:#\(.*\) )?\S+ +\($", re.MULTILINE)
_NET = re.compile(r"^  (?:input|output|wire|reg) (?:\[(\d+):(\d+)\] )?(\\\S+ |\w+)")


def constants(folder: Path, files: str = "gen/*.v gen/parts/*.v") -> dict[str, dict[Bit, int]]:
    """By unit, bits that Yosys makes constant when it simplifies a module by itself.

    Parameters
    ----------
    folder : Path
        Where the netlist is written, below the folder of ``gen/``.
    files : str
        Modules, as Yosys finds them from there.
    """
    netlist = folder.absolute().relative_to(GEN.parent) / "netlist.json"
    # What is inside a module stays outside: another one may use it in another way.
    run_yosys(GEN.parent, f"read_verilog {files}; proc; opt -full; write_json {netlist}")
    found: dict[str, dict[Bit, int]] = {}
    for module in json.loads((GEN.parent / netlist).read_text())["modules"].values():
        for net in module["netnames"].values():
            place = _DECLARED_AT.match(net["attributes"].get("src", ""))
            if place is None:
                continue
            for bit, driver in enumerate(net["bits"], start=net.get("offset", 0)):
                if driver in ("0", "1"):  # others are numbers of nets, or "x" of what is not used
                    found.setdefault(named()[place[1]].unit, {})[int(place[2]), bit] = int(driver)
    return found


def proved(
    candidates: Mapping[str, Collection[Bit]],
    known: Mapping[str, Mapping[Bit, int]],
    folder: Path,
    seconds: float,
) -> dict[str, set[Bit]]:
    """Bits of modules that are proved never to change.

    Whatever inputs a module gets, whatever is in its memories and whatever leaves the modules in
    it, their constant bits apart. Registers begin with 0. ABC finds the bits by induction.

    Parameters
    ----------
    candidates : Mapping
        Bits of the module of each unit.
    known : Mapping
        Bits that are constant, and what they are; outputs among them help in the modules around.
    folder : Path
        Where proofs are kept.
    seconds : float
        After which no proof begins; of modules without one nothing is proved then.
    """
    end = time.monotonic() + seconds
    found: dict[str, set[Bit]] = {}
    outside: dict[str, dict[Bit, int]] = {}
    for module in _innermost_first():
        name, text = module.unit, module.sources[0].read_text()
        # What is constant with some parameters need not be so with others.
        asked = () if module.given else candidates.get(name, ())
        values = _kept(folder, text, asked, outside, end) if asked else {}
        found[name] = values.keys() & set(asked)
        ports = {line for line, net in _nets(text).items() if net in _outputs(text)}
        constant = {**known.get(name, {}), **values}
        outside[module.name] = {bit: value for bit, value in constant.items() if bit[0] in ports}
    return {name: bits for name, bits in found.items() if bits}


def _kept(
    folder: Path,
    text: str,
    asked: Collection[Bit],
    inside: Mapping[str, Mapping[Bit, int]],
    end: float,
) -> dict[Bit, int]:
    """Return the constant bits of a module, from an earlier proof and more if there is one."""
    names = sorted(set(_PART.findall(text)))
    parts = {name: sorted(inside.get(name, {}).items()) for name in names}
    digest = hashlib.sha256(json.dumps([text, parts]).encode()).hexdigest()[:16]
    place = folder / f"{digest}.json"
    if place.exists():
        kept = json.loads(place.read_text())
        if set(asked) <= {(line, bit) for line, bit in kept["asked"]}:
            return {(line, bit): value for line, bit, value in kept["found"]}
    if time.monotonic() > end:
        return {}
    found = _values(text, sorted(asked), inside)
    rows = [[*bit, value] for bit, value in sorted(found.items())]
    folder.mkdir(parents=True, exist_ok=True)
    place.write_text(json.dumps({"asked": sorted(asked), "found": rows}))
    return found


def _innermost_first() -> list[Module]:
    """Modules, each after those in it."""
    parts = {
        name: [n for n in _PART.findall(module.sources[0].read_text()) if n in named()]
        for name, module in sorted(named().items())
    }
    order: dict[str, None] = {}

    def add(name: str) -> None:
        for part in parts[name]:
            if part not in order:
                add(part)
        order[name] = None

    for name in parts:
        add(name)
    return [named()[name] for name in order]


def _nets(text: str) -> dict[int, str]:
    """Names of nets by the lines that declare them."""
    nets = ((line, _NET.match(words)) for line, words in enumerate(text.splitlines(), start=1))
    return {line: net[3] for line, net in nets if net}


def _outputs(text: str) -> set[str]:
    return {name for way, name in _PORT.findall(text) if way == "output"}


def _values(text: str, bits: list[Bit], inside: Mapping[str, Mapping[Bit, int]]) -> dict[Bit, int]:
    """Return the constant bits of a module, those that change left out."""
    lines, nets, outputs = text.splitlines(), _nets(text), _outputs(text)
    seen = []
    for line, bit in bits:
        net = _NET.match(lines[line - 1])
        assert net is not None, f"line {line} declares nothing"
        seen.append(f"{nets[line]}[{bit}]" if net[1] else nets[line])
    output = f"  output [{len(bits) - 1}:0] seen;\n  assign seen = {{ {', '.join(seen[::-1])} }};\n"
    head = _HEAD.search(text)
    assert head is not None
    ports = [port for port in head[2].replace(",", " ").split() if port not in outputs]
    shown = _PORT.sub(lambda port: port[0] if port[1] == "input" else "", text)
    shown = shown.replace(head[0], f"module {head[1]}({', '.join([*ports, 'seen'])});\n")
    shown = shown.replace("endmodule", f"{output}endmodule")
    parts = sorted({name for name in _PART.findall(text) if name in named()})
    texts = [shown, *(_shell(name, inside[name]) for name in parts if inside.get(name))]
    free = [f"t:{name}" for name in parts if not inside.get(name)]
    with tempfile.TemporaryDirectory() as place:
        folder = Path(place)
        (folder / "design.v").write_text("\n".join(texts))
        return _always(folder, head[1], bits, free)


def _shell(name: str, values: Mapping[Bit, int]) -> str:
    """A module with nothing inside but constants that leave it."""
    text = named()[name].sources[0].read_text()
    head = _HEAD.search(text)
    assert head is not None
    lines, nets = text.splitlines(), _nets(text)
    always = "".join(
        f"  assign {nets[line]}{f'[{bit}]' if '[' in lines[line - 1] else ''} = 1'b{value};\n"
        for (line, bit), value in values.items()
    )
    ports = "".join(port[0] for port in _PORT.finditer(text))
    return f"{head[0]}{ports}{always}endmodule\n"


def _always(folder: Path, top: str, bits: list[Bit], free: list[str]) -> dict[Bit, int]:
    """Return the constant bits of the only output of a design."""
    gates = "opt -nodffe -nosdff"  # ABC takes no registers with an enable or a reset
    script = (
        f"read_verilog design.v; delete {' '.join(['t:$mem*', *free])}; hierarchy -top {top}; "
        "proc -norom; delete t:$mem*; "
        f"flatten -noscopeinfo; setundef -undriven -anyseq; opt_clean; async2sync; {gates}; "
        f"techmap; simplemap; {gates}; dffunmap; simplemap; {gates}; setundef -zero -init; "
        "aigmap; opt_clean; "
        "write_aiger -zinit -map map.txt design.aig"
    )
    abc = "read_aiger,design.aig;strash;scorr,-F,1;dc2;scorr;write_aiger,made.aig"
    try:
        run_yosys(folder, script)
        made = run_abc(folder, abc, "made.aig")
    except AssertionError:  # they have given up: then nothing is proved
        return {}
    outputs = _aiger_outputs(made.read_bytes())
    assert len(outputs) == len(bits), f"{top} has {len(outputs)} outputs, not {len(bits)}"
    # Outputs that Yosys made constant are not in the map.
    for line in (folder / "map.txt").read_text().splitlines():
        kind, index, bit, *_ = line.split()
        assert kind != "output" or index == bit, f"{top} has its outputs in another order"
    return {bit: value for bit, value in zip(bits, outputs, strict=True) if value < 2}


def _aiger_outputs(data: bytes) -> list[int]:
    """Literals of the outputs of a file of ABC; 0 and 1 are constants."""
    head, *rest = data.split(b"\n")
    _, _, latches, outputs, _ = map(int, head.split()[1:6])
    return [int(word) for word in rest[latches : latches + outputs]]
