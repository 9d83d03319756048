"""Flags for accumulators of windows: those of all published sequencers, in every cycle."""

from mxsafe.rtl.array.window_sequencer import WindowSequencer
from verif.rtl.array.sequencer_checks import Ends, check_sequencer
from verif.support.units import published


def test_flags_of_random_beats() -> None:
    for seed, module in enumerate(published(WindowSequencer).values()):
        p = module.parameters
        dot, macs = p["dot_latency"], p["macs"]
        ends = Ends(
            of_tiles=True,
            beats={"valid": dot, "starts": dot, "aligns": dot + 1, "first": dot + 1},
            first_held=None,
            steps={"turn": (dot + 2, macs)},
            done=dot + 2 + p["result_latency"],
        )
        check_sequencer("icarus", module, ends, seed)
