"""``python -m studies.proofs [--all] [MODULE...]``: proofs about modules of ``gen/``.

They are about streams, pipelines, datapaths and frames of lanes. Of each kind of unit with results
that wait the smallest module is taken, and a few made in another way, or with ``--all`` every one;
or those that are named, with ``*`` if need be. What the proofs rest on is proved too: modules
inside that they look at from outside only. Results go to ``docs/trust.json`` and ``docs/trust.md``
proof by proof; what was interrupted goes on where it was, and what is proved is proved again only
when its Verilog or the proof has changed, or when it is proved for some cycles alone and the module
is named.
"""

import fnmatch
import hashlib
import json
import resource
import tempfile
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from studies import pages
from studies.pages.trust import DATA
from studies.prose import parser_of
from verif.rtl import frames, pipelines, stream_claims, stream_rules
from verif.rtl.datapaths import claims, datapath, prove_datapath
from verif.rtl.frames import is_lane, prove_frame
from verif.rtl.pipelines import PIPELINES, prove_pipeline
from verif.rtl.stream_claims import ALSO, LEFT_OUT, claims_for, kind_of
from verif.rtl.stream_rules import (
    Claims,
    clocks_until_taken,
    cut,
    enable_lemma,
    prove_rules,
    streams,
)
from verif.support import manifest, proof
from verif.support.manifest import Module

_PROVERS = tuple(
    Path(module.__file__) for module in (pipelines, proof, stream_claims, stream_rules)
)
"""Files that decide what is proved of a module, and how: a proof holds for these, too."""

PROOFS = ("streams", "enables", "pipelines", "datapaths", "frames")
"""Kinds of proofs."""
_CLOCKS = 20
"""That are enough where no proof for all time comes to an end."""


def _size(module: Module) -> int:
    return sum(source.stat().st_size for source in module.sources)


def _bits(module: Module) -> int:
    return sum(port.width for port in module.ports.values())


def digest(*modules: Module, kind: str = "") -> str:
    """Digest of all Verilog of modules, and of the files that say what is proved, and how.

    Of a datapath these are its specification and the file that proves.
    """
    if kind == "datapaths":
        made = "".join(claims(*modules)) + Path(proof.__file__).read_text()
        return hashlib.sha256(made.encode()).hexdigest()[:16]
    files = {source.name: source for module in modules for source in module.sources}
    files |= {path.name: path for path in _PROVERS}
    if kind == "frames":
        files["frames.py"] = Path(frames.__file__)
    text = "\0".join(file.read_text() for _, file in sorted(files.items()))
    return hashlib.sha256(text.encode()).hexdigest()[:16]


def stream_units(modules: Mapping[str, Module]) -> dict[str, list[Module]]:
    """Modules with results that wait until they are taken, by kind, small ones first."""
    kinds: dict[str, list[Module]] = {}
    for module in sorted(modules.values(), key=_bits):
        waits = any(stream.direction == "output" for stream in streams(module))
        if waits and kind_of(module) not in LEFT_OUT:
            kinds.setdefault(kind_of(module), []).append(module)
    return dict(sorted(kinds.items(), key=lambda item: _size(item[1][0])))


def _timed(proof: Callable[[], Any]) -> dict[str, Any]:
    """Return the result of a proof, and the CPU seconds of all that ran."""

    def used() -> float:
        children = resource.getrusage(resource.RUSAGE_CHILDREN)
        return children.ru_utime + children.ru_stime

    start = used()
    try:
        found = proof()
        result: dict[str, Any] = {"proved": True}
    except AssertionError as error:
        found, result = None, {"proved": False, "why": str(error).split("\n")[0]}
    result["seconds"] = round(used() - start, 1)
    return result | (found or {})


def _is_for_some_clocks(found: Mapping[str, Any]) -> bool:
    return any(found.get(part) for part in ("rules", "beats"))


def _write(proofs: Mapping[str, Any]) -> None:
    numbers = json.loads(DATA.read_text())
    numbers["proofs"] = proofs
    pages.keep(DATA, numbers, indent=2)
    pages.write("trust")


def main(arguments: Sequence[str] | None = None) -> None:
    """Prove, print and write."""
    parser = parser_of("proofs", __doc__)
    parser.add_argument("names", nargs="*", metavar="MODULE", help="of gen/")
    parser.add_argument("--all", action="store_true", help="modules of a kind, not the smallest")
    parser.add_argument("--seconds", type=int, default=300, help="that a method may take (300)")
    parsed = parser.parse_args(arguments)
    names = parsed.names
    modules = manifest.generated()
    proofs = json.loads(DATA.read_text()).get("proofs", {})
    proofs = {kind: proofs.get(kind, {}) for kind in PROOFS}
    kinds = stream_units(modules)
    known = {unit.unit for units in kinds.values() for unit in units}
    specified = [module.unit for module in modules.values() if datapath(module)]
    for pattern in names:
        if not fnmatch.filter({*known, *proofs["enables"], *PIPELINES, *specified}, pattern):
            parser.error(f"MODULE must be one that something is proved of, not {pattern!r}")

    def put(kind: str, name: str, text: str, proof: Callable[[Path], Any]) -> None:
        wanted = not names or any(fnmatch.fnmatch(name, pattern) for pattern in names)
        before = proofs[kind].get(name, {})
        is_over = before.get("digest") == text and before["proved"]
        if not wanted or (is_over and not (names and _is_for_some_clocks(before))):
            return
        began = time.monotonic()
        with tempfile.TemporaryDirectory() as folder:
            found = _timed(lambda: proof(Path(folder)))
        proofs[kind][name] = {"digest": text, "kind": kind_of(modules[name]), **found}
        _write(proofs)
        said = "proved" if found["proved"] else found["why"]
        print(f"{name}: {said}, {time.monotonic() - began:.0f} s", flush=True)

    proofs["streams"] = {n: found for n, found in proofs["streams"].items() if n in known}
    found = all_proofs(modules, seconds=parsed.seconds, every=parsed.all or bool(names))
    for kind in PROOFS[1:]:
        proofs[kind] = {n: one for n, one in proofs[kind].items() if (kind, n) in found}
    for (kind, name), (about, prover) in found.items():
        put(kind, name, digest(*about, kind=kind), prover)
    _write(proofs)


def all_proofs(
    modules: Mapping[str, Module], *, seconds: int = 300, every: bool = False
) -> dict[tuple[str, str], tuple[tuple[Module, ...], Callable[[Path], Any]]]:
    """Subject of each proof and the function that proves it in a folder, by kind and module.

    Parameters
    ----------
    modules : Mapping of str to Module
        Those of ``gen/``.
    seconds : int
        That a method may take.
    every : bool
        Of all modules of a kind, not of the smallest alone.
    """
    proofs: dict[tuple[str, str], tuple[tuple[Module, ...], Callable[[Path], Any]]] = {}
    inside: set[str] = set()
    for units in stream_units(modules).values():
        first = [unit for unit in units if unit is units[0] or unit.unit in ALSO]
        for unit in units if every else first:
            proofs["streams", unit.unit] = (unit,), _rules(unit, modules, seconds)
            inside |= cut(unit, modules)[1]
    for name in sorted(inside):
        proofs["enables", name] = (modules[name],), _lemma(modules[name], modules)
    for name, right in PIPELINES.items():
        pair = modules[name], modules[right]
        proofs["pipelines", name] = pair, _pipeline(*pair)
    for module in modules.values():
        if datapath(module):
            proofs["datapaths", module.unit] = (module,), _datapath(module)
        if is_lane(module):
            proofs["frames", module.unit] = (module,), _frame(module)
    return proofs


def _rules(module: Module, modules: Mapping[str, Module], seconds: int) -> Callable[[Path], Any]:
    """Proof of a unit's streams with all claims; rules and claims apart if that does not end.

    And that it is about something: each result may wait, and be taken.
    """

    def proof(folder: Path) -> dict[str, Any]:
        claims = claims_for(module)
        # A search in vain ends by itself; on a busy machine one that is not takes its time.
        taken = clocks_until_taken(module, modules, folder / "taken", claims, seconds=10 * seconds)
        return {"taken": taken} | prove_all(folder, claims)

    def prove_all(folder: Path, claims: Claims | None) -> dict[str, Any]:
        def prove(part: str, claims: Claims | None, clocks: int) -> dict[str, Any]:
            reached, inside = prove_rules(
                module, modules, folder / part, claims, seconds=seconds, clocks=clocks
            )
            return {part: reached, "inside": sorted(inside)}

        if claims is None or not claims.summary:
            return prove("rules", claims, _CLOCKS)
        try:
            found = prove("beats", claims, 0)
        except AssertionError as error:
            if "no proof did end" not in str(error):
                raise
            rules = replace(claims, never={})
            found = prove("rules", rules, _CLOCKS) | prove("beats", claims, _CLOCKS)
            return found | {"claim": claims.summary}
        return found | {"rules": None, "claim": claims.summary}

    return proof


def _lemma(module: Module, modules: Mapping[str, Module]) -> Callable[[Path], Any]:
    return lambda folder: enable_lemma(module, modules, folder)


def _pipeline(module: Module, model: Module) -> Callable[[Path], Any]:
    return lambda folder: prove_pipeline(module, model, folder)


def _frame(module: Module) -> Callable[[Path], Any]:
    return lambda folder: prove_frame(module, folder)


def _datapath(module: Module) -> Callable[[Path], Any]:
    def proof(folder: Path) -> dict[str, Any]:
        prove_datapath(module, folder)
        found = datapath(module)
        assert found is not None
        return {"specification": found.specification}

    return proof


if __name__ == "__main__":
    main()
