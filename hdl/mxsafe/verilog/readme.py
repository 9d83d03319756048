"""The page beside generated Verilog: what is there, what makes it, and how tools read it."""

from collections.abc import Mapping
from typing import Any

from mxsafe.validation import checked
from mxsafe.verilog.names import LONGEST, PARTS

README = "README.md"
_PAGE = """\
# Verilog of MX-SAFE {version}

`mxsafe verilog` wrote this folder. An edit is lost when it is written again.

| file | holds |
|---|---|
| `*.v` | a module that is meant to be used, see the [table](#modules) |
| `*.f` | the files that such a module needs, seen from this folder |
| `*.sdc` | its timing constraints: a clock of 2 ns, or of `$period` where that is set before |
| `{parts}/*.v` | the modules inside |
| [`manifest.json`](manifest.json) | ports, parameters and latency of every module |
| [`manifest.schema.json`](manifest.schema.json) | what stands where in it |
| [`mxsafe_machine.h`](mxsafe_machine.h) | registers and descriptors of the machine, for C |

Memories and register slices are a module each, with parameters; others have none. `instances` of
the manifest are the parameters that they have here.

Clocks are `clk`; resets are synchronous and active high. The head of each file has the
configuration of its module.

## How tools read it

With `{example}` for any module of the table:

```sh
# Icarus Verilog, in this folder
iverilog -g2012 -s {example} -o {example}.vvp -c {example}.f

# Verilator and Yosys, from anywhere
verilator --lint-only --top-module {example} -F gen/{example}.f
yosys -p "read_verilog_file_list -F gen/{example}.f; synth -top {example}"
```

In Vivado (Tcl):

```tcl
foreach file [split [read -nonewline [open gen/{example}.f]] \\n] {{ read_verilog gen/$file }}
read_xdc -unmanaged gen/{example}.sdc
```

FuseSoC has a target for each module of the table in `mxsafe.core`. Tools that look modules up in
folders, as `iverilog -y` does, need `gen` and `gen/{parts}`.

## Names

Parts have {prefix}; `mxsafe verilog --prefix` writes another one. A name of more than {longest}
characters is cut, and ends in a digest: `unit` of the manifest has all of it. A module of the table
keeps its name inside others too:

{inside}

Where one of these names is taken, write the module around it to a folder of its own: there only
that module itself has no prefix.

## Modules

`mxsafe verilog` and a name of the first column write one module and its parts.

| `mxsafe verilog` | module | files | what it is |
|---|---|---|---|
{rows}
"""


@checked
def readme(manifest: Mapping[str, Any], commands: Mapping[str, str], prefix: str) -> str:
    """The page of a folder.

    Parameters
    ----------
    manifest : Mapping
        That of the folder.
    commands : Mapping of str to str
        By top, in the order of the table, the words after ``mxsafe verilog`` that make it.
    prefix : str
        What names of parts begin with.
    """
    modules = manifest["modules"]
    rows, inside = [], []
    for top, words in commands.items():
        entry = modules[top]
        rows.append(
            f"| `{words}` | [`{top}`]({top}.v) | [{len(entry['sources'])}]({top}.f) "
            f"| {entry['summary']} |"
        )
        within = [name for name in commands if f"{name}.v" in entry["sources"][1:]]
        if within:
            inside.append(f"- `{top}`: {', '.join(f'`{name}`' for name in sorted(within))}")
    return _PAGE.format(
        version=manifest["generator"]["mxsafe"],
        parts=PARTS,
        example=next(iter(commands)),
        prefix=f"the prefix `{prefix}`" if prefix else "no prefix",
        longest=LONGEST,
        inside="\n".join(inside),
        rows="\n".join(rows),
    )
