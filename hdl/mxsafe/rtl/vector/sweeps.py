"""Rows that are reduced in sweeps: beats of a stage at a time, however many there are of them.

Tested by `verif/rtl/machine/vector/test_vector_engine.py`.
"""

from amaranth.lib import data

SWEEP = data.StructLayout({"begins": 1, "largest": 1, "streams": 1, "ends": 1, "number": 2})
"""Controls of a sweep.

``begins``: rows begin; whatever is left of others is forgotten. For a cycle, in which there is no
beat. The others are steady while there are beats. ``largest``: beats are looked at for the largest
alone, and none of them goes on. ``streams``: beats come for a later stage, whose ``number`` counts
passes as `RowReplay` does; each comes once and is not kept. Without both, rows are whole.
``ends``: the beat that ends a row ends the stage too; else more of the same row follow. The end of
a row in a stage that has no results gives one beat, once all that follows from it has been found.
"""
