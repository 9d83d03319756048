"""``python -m mxsafe``, and where the `mxsafe` command begins."""

import os
import signal
import sys
from types import FrameType


def _stop(number: int, _: FrameType | None) -> None:
    """End at once: nothing has begun, and what is half imported cannot be relied on."""
    os.write(2, b"mxsafe: interrupted\n")
    os._exit(128 + number)


def main() -> int:
    """Import the command and run it on the arguments of the process; returns its exit code.

    The imports take most of a second, in which Ctrl-C is answered as it is later on.
    """
    usual = signal.getsignal(signal.SIGINT)
    if usual is signal.default_int_handler:  # else someone wants it ignored
        signal.signal(signal.SIGINT, _stop)
    from mxsafe.cli import main as command

    signal.signal(signal.SIGINT, usual)
    return command()


if __name__ == "__main__":
    sys.exit(main())
