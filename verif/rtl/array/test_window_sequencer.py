"""Flags for accumulators of windows: those of all published sequencers, in every cycle."""

from mxsafe.rtl.array.window_sequencer import WindowSequencer
from verif.rtl.array.sequencer_checks import Ends, check_sequencer
from verif.support.tests import Tally, available
from verif.support.units import published


def test_flags_of_random_beats(tally: Tally) -> None:
    simulator = available("icarus")
    for seed, (name, module) in enumerate(published(WindowSequencer).items()):
        p = module.parameters
        dot, macs = p["dot_latency"], p["macs"]
        ends = Ends(
            of_tiles=True,
            beats={"valid": dot, "starts": dot, "aligns": dot + 1, "first": dot + 1},
            first_held=None,
            steps={"turn": (dot + 2, macs)},
            done=dot + 2 + p["result_latency"],
        )
        tally(simulator, name, check_sequencer(simulator, module, ends, seed))
