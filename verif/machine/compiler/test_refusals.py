"""Shapes that the compiler refuses though memory has room for them: to be emptied, row by row."""

import pytest

from mxsafe.machine.compiler.networks import Encoder, EncoderShape
from mxsafe.machine.compiler.places import CompileError
from mxsafe.machine.compiler.transformer_shape import TransformerShape
from mxsafe.machine.compiler.transformers import Transformer
from mxsafe.machine.configuration import MachineConfiguration
from verif.support.tests import raises, typical

DEFAULT = MachineConfiguration()


def _minilm(tokens: int) -> EncoderShape:
    return EncoderShape(tokens=tokens, features=384, heads=12, hidden=1536, blocks=1)


def _vision(tokens: int, features: int = 192, heads: int = 3) -> TransformerShape:
    return TransformerShape(
        tokens=tokens, features=features, heads=heads, hidden=4 * features, blocks=1
    )


def _decoder(
    tokens: int, features: int, heads: int, key_heads: int, hidden: int
) -> TransformerShape:
    return TransformerShape.decoder(
        tokens=tokens,
        features=features,
        heads=heads,
        key_heads=key_heads,
        hidden=hidden,
        blocks=1,
    )


def _no_place(what: str, free: int, buffer: str, size: int, count: int) -> str:
    return f"{what} must fit into {free} free places of {buffer} ({size} in all), not {count}"


def _weights(strips: int, free: int, count: int) -> str:
    return _no_place(f"{strips} strips of attention weights", free, "buffer w", 4096, count)


def _too_long(row: int) -> str:
    return f"tokens and features must be at most 512, the longest row that is reduced, not {row}"


REFUSED = [
    (_minilm(141), _no_place("1 strips of query 0", 80, "buffer a", 2048, 96)),
    (_minilm(160), _no_place("10 strips of keys", 48, "buffer a", 2048, 80)),
    *(
        (
            _minilm(tokens),
            _no_place("sums of a layer", 4096, "the vector buffer", 4096, 24 * tokens),
        )
        for tokens in (256, 384, 512)
    ),
    (_vision(289), _weights(10, 657, 730)),
    (_vision(304), _weights(10, 684, 760)),
    (_vision(337), _weights(8, 595, 680)),
    (_vision(352), _weights(8, 616, 704)),
    (_vision(353), _weights(8, 623, 712)),
    (_vision(401), _weights(6, 505, 606)),
    (_vision(416), _weights(5, 504, 520)),
    (_vision(417), _weights(5, 440, 525)),
    (_vision(432), _weights(5, 432, 540)),
    (_vision(464), _weights(4, 440, 464)),
    (_decoder(256, 512, 8, 4, 1536), _no_place("1 strips of queries", 0, "buffer w", 4096, 16)),
    # SmolLM2 135M, ViT-B and Llama 3.2 1B.
    (_decoder(16, 576, 9, 3, 1536), _too_long(576)),
    (_vision(197, 768, 12), _too_long(768)),
    (_decoder(64, 2048, 32, 8, 8192), _too_long(2048)),
]
TAKEN = [
    _minilm(140),
    *(_vision(tokens) for tokens in (288, 320, 336, 384, 448, 512)),
    _decoder(240, 512, 8, 4, 1536),
]
"""Shapes beside them."""


def _compile(shape: EncoderShape | TransformerShape) -> None:
    make = Encoder if isinstance(shape, EncoderShape) else Transformer
    make(shape, DEFAULT).emitter.program()


@pytest.mark.parametrize(("shape", "message"), REFUSED)
def test_refused_for_size(shape: EncoderShape | TransformerShape, message: str) -> None:
    with raises(CompileError, message):
        _compile(shape)


@pytest.mark.parametrize("shape", typical(TAKEN, every=7))
def test_taken_beside_them(shape: EncoderShape | TransformerShape) -> None:
    _compile(shape)
