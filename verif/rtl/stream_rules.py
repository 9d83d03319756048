"""Rules of streams as Verilog around a module: what it may expect, and what is claimed.

What lies inside a module is taken as it is, but for modules that are only looked at from outside:
one without registers gives the same as long as it gets the same, and what a pipeline gives stays
while its enable is low. `enable_lemma` is the proof of the latter.
"""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from mxsafe.verilog.parameters import fixed, fixed_name, with_fixed
from verif.support.fresh import require_fresh
from verif.support.manifest import Module, Port
from verif.support.proof import REACHABILITY, first_clock, never, never_at

__all__ = [
    "Claims",
    "Stream",
    "clocks_until_taken",
    "cut",
    "enable_lemma",
    "prove_rules",
    "streams",
]

ENABLES = ("en_last", "en", "read_en")
"""Inputs of pipelines and memories; what such a unit gives stays while its first one is low."""
_INSTANCE = re.compile(r"^  (\w+) \\?\S+ \($", re.MULTILINE)
_VALID = re.compile(r"(.*_t|.*_|m_axi_(?:ar|aw|r|w|b)|s_axi_(?:ar|aw|r|w|b))valid")


@dataclass(frozen=True)
class Stream:
    """A handshake among the ports of a module.

    Attributes
    ----------
    name : str
        What the names of its ports begin with.
    direction : str
        That of its payload.
    payload : tuple of Port
    """

    name: str
    direction: str
    payload: tuple[Port, ...]

    @property
    def bits(self) -> int:
        return sum(port.width for port in self.payload) or 1

    @property
    def value(self) -> str:
        """Its payload in Verilog."""
        names = ", ".join(port.name for port in self.payload)
        return f"{{{names}}}" if names else "1'b0"


@dataclass(frozen=True)
class Claims:
    """Claims about a module beside the rules.

    Attributes
    ----------
    summary : str
        In words.
    never : Mapping of str to str
        By name, what may never be 1, in Verilog over ports, ``NAMEtakes`` of each stream, and
        what is declared.
    declarations : str
        Registers of the claims' own.
    assumed : sequence of str
        What is always 1.
    first : str
        The method that ends soonest, of `verif.support.proof.never`.
    nets : Mapping of str to int
        Nets inside the module and their bits; claims know them as ``inside_NAME``.
    """

    summary: str
    never: Mapping[str, str]
    declarations: str = ""
    assumed: Sequence[str] = ()
    first: str = REACHABILITY
    nets: Mapping[str, int] = field(default_factory=dict)


def streams(module: Module) -> list[Stream]:
    """Every handshake: a port ``NAMEvalid`` of one bit, with a ``NAMEready`` beside it."""
    found: dict[str, list[Port]] = {}
    for port in module.ports.values():
        match = _VALID.fullmatch(port.name)
        if match and port.width == 1 and f"{match[1]}ready" in module.ports:
            found[match[1]] = []
    for port in module.ports.values():
        owner = max((name for name in found if port.name.startswith(name)), key=len, default=None)
        if owner is None or port.name in (f"{owner}valid", f"{owner}ready"):
            continue
        if port.direction == module.ports[f"{owner}valid"].direction:
            found[owner].append(port)
    return [
        Stream(name, module.ports[f"{name}valid"].direction, tuple(payload))
        for name, payload in found.items()
    ]


def _declared(ports: Sequence[Port]) -> str:
    return ", ".join(f"{port.direction} [{port.width - 1}:0] {port.name}" for port in ports)


def _stub(module: Module) -> str | None:
    """A module as it is looked at from outside, or None if it is not."""
    ports = list(module.ports.values())
    outputs = [port for port in ports if port.direction == "output"]
    inputs = [port for port in ports if port.direction == "input" and port.name != "clk"]
    top = sum(port.width for port in outputs) - 1
    enable = next((name for name in ENABLES if name in module.ports), None)
    if "clk" not in module.ports:
        entering = ", ".join(port.name for port in inputs)
        keeps = (
            f"  wire [{sum(port.width for port in inputs) - 1}:0] in = {{{entering}}};\n"
            f"  reg [{sum(port.width for port in inputs) - 1}:0] was = 0;\n"
            "  reg known = 0;\n"
            "  always @($global_clock) begin was <= in; known <= 1; end\n"
            "  wire keeps = known & was == in;\n"
        )
    elif enable is not None:
        keeps = (
            "  reg moved = 1;\n"
            f"  always @($global_clock) moved <= {enable} | rst;\n"
            "  wire keeps = ~moved;\n"
        )
    else:
        return None
    leaving = ", ".join(port.name for port in outputs)
    return (
        f"module {fixed_name(module.name, module.given)}({_declared(ports)});\n{keeps}"
        f"  wire [{top}:0] anything;\n  reg [{top}:0] held = 0;\n"
        f"  wire [{top}:0] out = keeps ? held : anything;\n"
        f"  always @($global_clock) held <= out;\n"
        f"  assign {{{leaving}}} = out;\nendmodule\n"
    )


def cut(module: Module, modules: Mapping[str, Module]) -> tuple[str, set[str]]:
    """Verilog of a module and of what is inside it, and units of what is only looked at."""
    texts: dict[str, str] = {}
    looked_at = set()
    named = {fixed_name(each.name, each.given): each for each in modules.values()}
    named[module.name] = module
    pending = [module.name]
    while pending:
        name = pending.pop()
        if name in texts:
            continue
        stub = None if name == module.name else _stub(named[name])
        if stub is not None:
            texts[name] = stub
            if "clk" in named[name].ports:
                looked_at.add(named[name].unit)
            continue
        require_fresh(named[name].sources[:1])
        texts[name] = with_fixed(fixed(named[name].text, {}, name))
        pending += [inside for inside in _INSTANCE.findall(texts[name]) if inside in named]
    return "\n".join(texts.values()), looked_at


def _shown(text: str, module: Module, nets: Mapping[str, int]) -> str:
    """Verilog in which a module has more outputs: nets inside it."""
    head = f"module {module.name}("
    if not nets:
        return text
    before, after = text.split(head)
    own, end, others = after.partition("endmodule")
    more = "".join(f"inside_{name}, " for name in nets)
    for name, bits in nets.items():
        own += f"  output [{bits - 1}:0] inside_{name};\n  assign inside_{name} = {name};\n"
    return "".join([before, head, more, own, end, others])


def _monitor(module: Module, claims: Claims, *, taken: bool = False) -> str:
    """A module around another one whose outputs are what may never be 1.

    Or, with `taken`, one output: each result was valid, has waited, and was taken.
    """
    found = streams(module)
    reset = "rst" if "rst" in module.ports else "~started"
    within = {f"{stream.name}{end}" for stream in found for end in ("valid", "ready")}
    within |= {port.name for stream in found for port in stream.payload}
    inputs = [port for port in module.ports.values() if port.direction == "input"]
    steady = [port for port in inputs if port.name not in within | {"clk", "rst"}]
    lines = ["  reg started = 0;", "  reg broken = 0;", "  reg was_reset = 0;"]
    lines += [
        f"  wire [{port.width - 1}:0] {port.name};"
        for port in module.ports.values()
        if port.direction == "output"
    ]
    lines += [f"  wire [{bits - 1}:0] inside_{name};" for name, bits in claims.nets.items()]
    clocked = ["started <= 1", f"was_reset <= {reset}", "broken <= broken | ~obeys"]
    # The first cycle is one of reset; registers may hold anything before it.
    rules = [f"(started | {reset})", *claims.assumed]
    never_one = dict(claims.never)
    for stream in found:
        name = stream.name
        lines += [
            f"  reg {name}waits = 0;",
            f"  reg [{stream.bits - 1}:0] {name}was = 0;",
            f"  wire {name}takes = {name}valid & {name}ready & ~{reset};",
            f"  wire {name}stays = {reset} | ~{name}waits "
            f"| ({name}valid & {name}was == {stream.value});",
            f"  wire {name}rests = ~(was_reset & {name}valid);",
        ]
        clocked += [
            f"{name}waits <= {name}valid & ~{name}ready & ~{reset}",
            f"{name}was <= {stream.value}",
        ]
        if stream.direction == "input":
            rules += [f"{name}stays", f"{name}rests"]
        else:
            never_one[f"{name}moves_while_it_waits"] = f"~{name}stays"
            never_one[f"{name}valid_after_reset"] = f"~{name}rests"
            lines.append(f"  reg {name}came = 0;")
            clocked.append(f"{name}came <= {name}came | (holds & {name}waits & {name}takes)")
    if steady:
        bits = sum(port.width for port in steady)
        value = f"{{{', '.join(port.name for port in steady)}}}"
        waits = [f"{stream.name}waits" for stream in found if stream.direction == "output"]
        lines.append(f"  reg [{bits - 1}:0] beside = 0;")
        clocked.append(f"beside <= {value}")
        rules.append(f"({reset} | ~({' | '.join(waits) or 0}) | beside == {value})")
    came = [f"{stream.name}came" for stream in found if stream.direction == "output"]
    shown = {"all_came": " & ".join(came)} if taken else never_one
    lines += [
        claims.declarations,
        f"  wire obeys = {' & '.join(rules)};",
        "  wire holds = obeys & ~broken & started;",
        f"  always @($global_clock) begin {'; '.join(clocked)}; end",
        *(f"  assign {name} = holds & ({bad});" for name, bad in shown.items()),
    ]
    named = [*module.ports, *(f"inside_{name}" for name in claims.nets)]
    connections = ", ".join(f".{name}({name})" for name in named)
    heads = [_declared(inputs), *(f"output {name}" for name in shown)]
    text = "\n".join(lines)
    return (
        f"module monitor({', '.join(heads)});\n{text}\n  {module.name} unit ({connections});\n"
        "endmodule\n"
    )


def prove_rules(
    module: Module,
    modules: Mapping[str, Module],
    folder: Path,
    claims: Claims | None = None,
    *,
    change: tuple[str, str] | None = None,
    seconds: int = 30,
    clocks: int = 0,
) -> tuple[int | None, set[str]]:
    """Prove the rules of a module's streams, and what else is claimed, for all time.

    Payload and `valid` stay while they wait for `ready`, and after a reset nothing is valid; as
    long as the same is true of what the module gets, and inputs that are in no stream stay too
    while something waits.

    Parameters
    ----------
    module : Module
    modules : Mapping of str to Module
        All modules.
    folder : Path
        Where files are written.
    claims : Claims, optional
    change : tuple of str, optional
        A text of the Verilog and what takes its place: the proof has to fail.
    seconds, cycles : int
        See `verif.support.proof.never`.

    Returns
    -------
    tuple
        Cycles for which it is proved or None, and names of the modules that are only looked at.
    """
    text, looked_at = cut(module, modules)
    if change is not None:
        right, wrong = change
        assert text.count(right) == 1, f"{module.name} no longer holds {right!r} once"
        text = text.replace(right, wrong)
    claims = claims or Claims(summary="", never={})
    text = _shown(text, module, claims.nets) + _monitor(module, claims)
    options = {"seconds": seconds, "clocks": clocks, "first": claims.first}
    return never(folder, text, "monitor", **options), looked_at


def clocks_until_taken(
    module: Module,
    modules: Mapping[str, Module],
    folder: Path,
    claims: Claims | None = None,
    *,
    seconds: int = 60,
) -> int:
    """Cycles, the first reset among them, after which each result may have waited and been taken.

    A solver finds inputs that keep all that the proofs about the module expect: where there were
    none, whatever is claimed would be proved.

    Parameters
    ----------
    module : Module
    modules : Mapping of str to Module
        All modules.
    folder : Path
        Where files are written.
    claims : Claims, optional
        What is expected is theirs.
    seconds : int
        That the search may take.
    """
    text, _ = cut(module, modules)
    claims = claims or Claims(summary="", never={})
    text = _shown(text, module, claims.nets) + _monitor(module, claims, taken=True)
    return first_clock(folder, text, "monitor", seconds=seconds) - 1


def enable_lemma(module: Module, modules: Mapping[str, Module], folder: Path) -> None:
    """Prove that what a pipeline or a memory gives stays while its enable is low."""
    enable = next(name for name in ENABLES if name in module.ports)
    ports = module.ports.values()
    inputs = [port for port in ports if port.direction == "input"]
    outputs = [port for port in ports if port.direction == "output"]
    bits = sum(port.width for port in outputs)
    wires = "".join(f"  wire [{port.width - 1}:0] {port.name};\n" for port in outputs)
    connections = ", ".join(f".{name}({name})" for name in module.ports)
    value = f"{{{', '.join(port.name for port in outputs)}}}"
    text, _ = cut(module, modules)
    text += (
        f"module monitor({_declared(inputs)}, output changes);\n{wires}"
        f"  reg was_still = 0;\n  reg [{bits - 1}:0] was = 0;\n"
        f"  always @($global_clock) begin was_still <= ~({enable} | rst); was <= {value}; end\n"
        f"  assign changes = was_still & was != {value};\n"
        f"  {module.name} unit ({connections});\nendmodule\n"
    )
    # Whatever registers hold in a cycle: so it is true of all cycles.
    never_at(folder, text, "monitor", clock=1)
