"""Programs end after their time of a processor, not of the clock."""

import sys

from studies.mutants.limits import run_within


def test_time_of_a_processor() -> None:
    words = [sys.executable, "-c"]
    assert run_within(1, [*words, "while True: pass"])[0] is None
    ended = run_within(1, [*words, "import sys, time; time.sleep(1.5); print(5); sys.exit(3)"])
    assert ended == (3, "5\n", "")
