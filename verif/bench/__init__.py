"""Code that runs inside the simulators.

A bench writes pins while the clock is low, or as it falls: cocotb applies what it writes at once.
One that writes as the clock rises has to say so to `verif.support.simulators.simulate`.
"""
