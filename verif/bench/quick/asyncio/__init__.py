"""What cocotb takes from asyncio: the names of two errors, not its network."""

__all__ = ["CancelledError", "InvalidStateError"]


class CancelledError(BaseException):
    """A task was cancelled."""


class InvalidStateError(Exception):
    """A task has no result yet."""
