"""Recording of the pins that benches drive, and mutants put in the place of designs.

Variables of the environment turn this on for all simulations of a run of pytest.
``MXSAFE_RECORD`` is a folder that takes what the input pins of every simulated design carried;
``MXSAFE_MUTANT`` a folder with files of Verilog that take the places of files of their names in
every design, ``MXSAFE_ARGUMENTS`` words for the simulators, which tell such files what to do, and
``MXSAFE_SIMULATOR`` the simulator that designs run on, in place of the one that a test chooses.
Proofs, which look at the Verilog of units that tests generate, take files of ``MXSAFE_PROVED``.
"""

import gzip
import hashlib
import json
import os
import re
import shutil
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from mxsafe.atomic import write_atomically
from mxsafe.verilog.parameters import without_parameters

PINS = "pins.txt"
"""Where a design with a recorder writes, in the folder it runs in."""
PROGRAMS = "verif.bench.accelerator"
"""The bench that runs programs on a machine with its memory."""
_MOST_CHARACTERS = 24_000_000
"""Recording of a simulation ends at this size."""
# A digit of which one bit is unknown would hide the others, such as a reset beside data that wait.
# Most rows are known, and not looked at bit by bit.
_KNOWN = """\
  function [{top}:0] known(input [{top}:0] bits);
    integer place;
    begin
      known = bits;
      if (^bits === 1'bx)
        for (place = 0; place < {width}; place = place + 1)
          known[place] = bits[place] === 1'b1;
    end
  endfunction
  wire [{top}:0] recorded_inputs = known(given_inputs);
"""
_PORT = re.compile(
    r"\b(input|output)\s+(?:(?:wire|reg)\s+)?(?:signed\s+)?(?:\[(\d+):0\]\s*)?([A-Za-z_]\w*)\s*[;,)\n]"
)


def files_without_parameters(sources: Sequence[Path], folder: Path) -> list[Path]:
    """Files with the same modules, those that are others now in a folder.

    Parameters
    ----------
    sources : sequence of Path
        Verilog, a module each that has the name of its file.
    folder : Path
    """
    files = {source.stem: source for source in sources}
    texts = {name: file.read_text() for name, file in files.items()}
    found = []
    for name, text in without_parameters(texts).items():
        is_same = texts.get(name) == text
        found.append(files[name] if is_same else _written(folder / f"{name}.v", text))
    return found


def _written(path: Path, text: str) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    if not path.exists() or path.read_text() != text:
        write_atomically(path, text)
    return path


def replaced(sources: Sequence[Path]) -> list[Path]:
    """Sources with files of ``MXSAFE_MUTANT`` in the places of those that have their names.

    None has parameters then: a mutant is one of a module with some of them.
    """
    if "MXSAFE_MUTANT" in os.environ:
        folder = Path(os.environ["MXSAFE_MUTANT"])
        sources = files_without_parameters(sources, folder.with_name("without_parameters"))
    return _replaced(sources, "MXSAFE_MUTANT")


def proved(sources: Sequence[Path]) -> list[Path]:
    """Sources with files of ``MXSAFE_PROVED`` in the places of those that have their names."""
    return _replaced(sources, "MXSAFE_PROVED")


def _replaced(sources: Sequence[Path], variable: str) -> list[Path]:
    if variable not in os.environ:
        return list(sources)
    mutants = {path.name: path for path in Path(os.environ[variable]).iterdir()}
    return [mutants.get(source.name, source) for source in sources]


def arguments() -> list[str]:
    """Words of ``MXSAFE_ARGUMENTS`` for the simulators."""
    return os.environ.get("MXSAFE_ARGUMENTS", "").split()


def simulator(own: str) -> str:
    """The simulator of ``MXSAFE_SIMULATOR``, or a test's own one."""
    return os.environ.get("MXSAFE_SIMULATOR") or own


def top_ports(text: str, top: str) -> dict[str, tuple[str, int]] | None:
    """Direction and width of each port of a module; None if a width is not a number."""
    found = re.search(rf"^module {top}\b.*?^endmodule", text, re.MULTILINE | re.DOTALL)
    if found is None or "#(" in found[0].split(";")[0] or "inout" in found[0]:
        return None
    ports = {
        name: (direction, int(high or 0) + 1) for direction, high, name in _PORT.findall(found[0])
    }
    declared = len(re.findall(r"\b(?:input|output)\b", found[0]))
    return ports if ports and len(ports) == declared else None


def recorded(top: str, sources: Sequence[Path], folder: Path) -> list[Path]:
    """Sources whose top module writes its inputs, in every cycle or whenever they change."""
    result = []
    for source in sources:
        text = source.read_text()
        ports = top_ports(text, top)
        if ports is not None:
            recorder = folder / source.name
            recorder.write_text(_with_recorder(text, top, ports))
            result.append(recorder)
        else:
            result.append(source)
    return result


def _with_recorder(text: str, top: str, ports: Mapping[str, tuple[str, int]]) -> str:
    inputs = [name for name, (way, _) in ports.items() if way == "input" and name != "clk"]
    width = sum(ports[name][1] for name in inputs)
    body = (
        f"  wire [{width - 1}:0] given_inputs = {{{', '.join(inputs)}}};\n"
        f"{_KNOWN.format(top=width - 1, width=width)}"
    )
    write = '$fwrite(recorder, "%h\\n", recorded_inputs);'
    if "clk" in ports:
        body += f"  always @(posedge clk) {write}\n"
    else:
        # Inputs change one after the other in Icarus, all at once in Verilator.
        body += (
            f"`ifdef VERILATOR\n  always @* {write}\n"
            '`else\n  always @* $fstrobe(recorder, "%h", recorded_inputs);\n`endif\n'
        )
    start = re.search(rf"^module {top}\b", text, re.MULTILINE)
    assert start is not None
    end = text.index("endmodule", start.end())
    return (
        text[:end]
        + f'  integer recorder;\n  initial recorder = $fopen("{PINS}", "w");\n{body}'
        + text[end:]
    )


def keep(
    top: str,
    sources: Sequence[Path],
    run: Path,
    bench: str,
    watched: Sequence[str],
    environment: Mapping[str, str],
) -> None:
    """Move what a simulation recorded into the folder of ``MXSAFE_RECORD``, beside the design.

    Of programs on a machine it is what the bench was told, and memory before them.
    """
    pins = run / PINS
    if not pins.exists() or not pins.stat().st_size:
        return
    digest = hashlib.sha256()
    for source in sources:
        digest.update(source.name.encode() + b"\0" + source.read_bytes() + b"\0")
    design = Path(os.environ["MXSAFE_RECORD"]) / f"{top[:60]}-{digest.hexdigest()[:12]}"
    (design / "sources").mkdir(parents=True, exist_ok=True)
    for source in sources:
        shutil.copyfile(source, design / "sources" / source.name)
    with pins.open("rb") as file:
        text = file.read(_MOST_CHARACTERS)
    text = text[: text.rindex(b"\n") + 1]
    name = hashlib.sha256(text).hexdigest()[:12]
    (design / f"{name}.gz").write_bytes(gzip.compress(text, 1))
    described: dict[str, Any] = {
        "top": top,
        "bench": bench,
        "test": os.environ.get("PYTEST_CURRENT_TEST", "").rsplit(" ", 1)[0],
        "watched": list(watched),
    }
    if bench == PROGRAMS:
        described["job"] = json.loads(environment["MXSAFE_JOB"])
        memory = Path(described["job"].pop("memory")).read_bytes()
        (design / f"{name}.memory").write_bytes(gzip.compress(memory, 1))
    (design / f"{name}.json").write_text(json.dumps(described))
