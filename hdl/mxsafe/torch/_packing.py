"""Codes without gaps along the last axis, as `mxsafe.packing` has them, on any device."""

from __future__ import annotations

import math

import torch


def packed(codes: torch.Tensor, width: int) -> torch.Tensor:
    """Bytes of codes: the first code in the lowest bits of the first byte."""
    if width == 8:
        return codes.contiguous()
    many, size = math.lcm(width, 8) // width, math.lcm(width, 8) // 8
    count = codes.shape[-1]
    groups = torch.nn.functional.pad(codes, (0, -count % many)).unflatten(-1, (-1, many))
    words = (groups.long() << _shifts(many, width, codes.device)).sum(-1, keepdim=True)
    parts = (words >> _shifts(size, 8, codes.device)) & 0xFF
    return parts.to(torch.uint8).flatten(-2)[..., : -(-count * width // 8)].contiguous()


def unpacked(data: torch.Tensor, width: int, count: int) -> torch.Tensor:
    """Codes of bytes: undoes `packed`."""
    if width == 8:
        return data
    if width == 4:  # twice as fast as words
        return torch.stack((data & 0xF, data >> 4), -1).flatten(-2)[..., :count]
    many, size = math.lcm(width, 8) // width, math.lcm(width, 8) // 8
    groups = torch.nn.functional.pad(data, (0, -data.shape[-1] % size)).unflatten(-1, (-1, size))
    words = (groups.long() << _shifts(size, 8, data.device)).sum(-1, keepdim=True)
    codes = (words >> _shifts(many, width, data.device)) & ((1 << width) - 1)
    return codes.to(torch.uint8).flatten(-2)[..., :count]


def _shifts(count: int, step: int, device: torch.device) -> torch.Tensor:
    return torch.arange(0, count * step, step, device=device)
