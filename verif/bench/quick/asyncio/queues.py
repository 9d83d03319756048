"""What cocotb's queues take from those of asyncio."""

__all__ = ["QueueEmpty", "QueueFull"]


class QueueEmpty(Exception):  # noqa: N818  # asyncio's name
    """Nothing to take."""


class QueueFull(Exception):  # noqa: N818  # asyncio's name
    """No place."""
