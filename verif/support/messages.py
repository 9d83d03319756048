"""Messages of errors: a check of all that one says, and what more than one test expects."""

import re

import pytest

__all__ = ["INTEGERS", "refused"]

INTEGERS = (
    "format must have floating-point elements for arithmetic fp12, not mxint8: products of "
    "integers are integers, which arithmetic exact adds without loss and in less hardware"
)


def refused(
    error: type[Exception] | tuple[type[Exception], ...], message: str
) -> pytest.RaisesExc[Exception]:
    """Return a context in which an error with this message, and with nothing else, is raised."""
    return pytest.raises(error, match=rf"\A{re.escape(message)}\Z")
