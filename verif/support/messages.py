"""Messages of errors that more than one test expects."""

__all__ = ["INTEGERS"]

INTEGERS = (
    "format must have floating-point elements for arithmetic fp12, not mxint8: products of "
    "integers are integers, which arithmetic exact adds without loss and in less hardware"
)
