"""ONNX models as programs of the machine.

Needs the extra ``onnx``; ``import mxsafe`` does not import it.
"""

import ast
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal, cast

import numpy as np
from numpy.typing import NDArray

try:
    import onnx
    from onnx.inliner import inline_local_functions
    from onnx.reference import ReferenceEvaluator
except ImportError as error:
    raise ImportError(f"mxsafe.onnx needs the extra onnx, pip install '.[onnx]': {error}") from None

from mxsafe.machine.compiled import Compiled, compile_graph
from mxsafe.machine.compiler.places import CompileError
from mxsafe.machine.composed import LACKS, Composer, RefusalError, require_kept
from mxsafe.machine.configuration import MachineConfiguration
from mxsafe.machine.graph import Graph, Value
from mxsafe.machine.named import Format, Machine, machine_named

Array = NDArray[Any]
_MOVES = (
    "DepthToSpace",
    "Expand",
    "Flatten",
    "Gather",
    "GatherElements",
    "GatherND",
    "Reshape",
    "Slice",
    "SpaceToDepth",
    "Split",
    "Squeeze",
    "Tile",
    "Transpose",
    "Unsqueeze",
)
"""Operators that move elements of their first input and leave each as it is."""
_OF_HOST = {
    "Add": "add",
    "And": "logical_and",
    "Equal": "equal",
    "Greater": "greater",
    "GreaterOrEqual": "greater_equal",
    "Less": "less",
    "LessOrEqual": "less_equal",
    "Mul": "multiply",
    "Not": "logical_not",
    "Or": "logical_or",
    "Sub": "subtract",
}
"""Operators of integers and booleans, by their names in NumPy."""
_COMPARE = ("And", "Equal", "Greater", "GreaterOrEqual", "Less", "LessOrEqual", "Not", "Or")
_FUNCTIONS = {"Relu": "relu", "Tanh": "tanh", "Exp": "exp", "Sigmoid": "sigmoid", "Swish": "silu"}
_OF_HOST_ALONE = {"Abs": "abs", "Cos": "cos", "Erf": "erf", "Log": "log", "Sin": "sin"}
_LEAST = 13
"""Version of ONNX's operators."""
_TYPES = {
    onnx.TensorProto.FLOAT: "float32",
    onnx.TensorProto.INT64: "int64",
    onnx.TensorProto.INT32: "int64",
    onnx.TensorProto.BOOL: "bool",
}


def compile(
    model: "onnx.ModelProto | str | Path",
    *,
    machine: Machine = "default",
    format: Format | None = None,
    block: int | tuple[int, int] | None = None,
    arithmetic: Literal["exact", "fp12", "window", "bf16"] | None = None,
    keep: Collection[str] = (),
) -> Compiled:
    """An ONNX model as a program of the machine.

    Parameters
    ----------
    model : ModelProto, str or Path
        With fixed shapes.
    machine, format, block, arithmetic
        As those of `mxsafe.torch.compile`.
    keep : collection of str
        Names of nodes that the host computes, or of modules, as ``torch.onnx.export`` notes them.

    Raises
    ------
    CompileError
        If nodes cannot be taken: the message has name, operator and reason of each. Or if the
        machine lacks what they need.
    ValueError
        If there is no such module or node.
    """
    if not isinstance(model, onnx.ModelProto):
        model = onnx.load(model)
    return compile_model(model, machine_named(machine, format, arithmetic), block, keep)


def compile_model(
    model: onnx.ModelProto,
    configuration: MachineConfiguration,
    block: int | tuple[int, int] | None = None,
    keep: Collection[str] = (),
) -> Compiled:
    """As `compile`, for a machine."""
    from mxsafe.rtl.machine.times import times_of

    times = times_of(configuration)
    return compile_graph(legalised(model, keep), configuration, block=block, times=times)


def legalised(model: onnx.ModelProto, keep: Collection[str] = ()) -> Graph:
    """An ONNX model as a graph, of which the host computes what is named.

    Raises
    ------
    CompileError
        If nodes cannot be taken: the message has name, operator and reason of each. Or if the
        opset is older than 13.
    ValueError
        If there is no such module or node.
    """
    return _Legaliser(model, keep).run()


class _Refused:
    """A value that follows from a node that was refused."""


@dataclass(frozen=True)
class _Part:
    """A value within a pattern of operators that becomes one of the machine's.

    ``erf`` of ``x / sqrt(2)`` and ``1 + erf`` and ``x * (1 + erf)`` become GELU; ``isnan`` is where
    exported attention asks for rows that are masked as a whole.
    """

    kind: Literal["erf", "one_and_erf", "twice_gelu", "half_share", "isnan"]
    of: Value


class _Legaliser:
    def __init__(self, model: onnx.ModelProto, keep: Collection[str]) -> None:
        self._model, self._keep = inline_local_functions(model), keep
        self._g = Graph()
        self._c = Composer(self._g)
        self._env: dict[str, Any] = {"": None}
        self._roots: dict[int, Value] = {}
        """Of what is a square root, of what."""
        self._errors: list[str] = []

    def run(self) -> Graph:
        """Take node after node; say which ones cannot be taken."""
        graph = self._model.graph
        versions = (one.version for one in self._model.opset_import if one.domain == "")
        if (version := next(versions, _LEAST)) < _LEAST:  # softmax, for one, was another then
            raise CompileError(f"opset must be at least {_LEAST}, not {version}")
        for tensor in graph.initializer:
            self._env[tensor.name] = _own(onnx.numpy_helper.to_array(tensor))
        for one in graph.input:
            if one.name not in self._env:
                self._env[one.name] = self._input(one)
        names = dict.fromkeys(name for node in graph.node for name in _modules(node))
        require_kept(self._keep, names)
        for node in graph.node:
            self._g.on_host = any(name in self._keep for name in _modules(node))
            self._node(node)
        if self._errors:
            raise CompileError(
                f"{len(self._errors)} nodes cannot be compiled:\n" + "\n".join(self._errors)
            )
        for one in graph.output:
            value = self._env[one.name]
            if isinstance(value, _Part):
                raise CompileError(f"output {one.name} must be a tensor of the graph")
            self._g.output(one.name, self._c.whole(value))
        return self._g

    def _input(self, one: onnx.ValueInfoProto) -> Any:
        kind = one.type.tensor_type
        shape = [size.dim_value for size in kind.shape.dim]
        if not all(shape):
            sizes = [size.dim_value or size.dim_param for size in kind.shape.dim]
            self._errors.append(f"  {one.name}: input: shape must be fixed, not {sizes}")
            return _Refused()
        if kind.elem_type not in _TYPES:
            name = onnx.TensorProto.DataType.Name(kind.elem_type)
            self._errors.append(
                f"  {one.name}: input: it must be float32, integers or booleans, not {name}"
            )
            return _Refused()
        return self._g.input(one.name, shape, _TYPES[kind.elem_type])

    def _node(self, node: onnx.NodeProto) -> None:
        given = [self._env.get(name) for name in node.input]
        if any(isinstance(one, _Refused) for one in given):
            found: Any = [_Refused() for _ in node.output]
        else:
            try:
                found = self._taken(node, given)
            except (RefusalError, ValueError) as refusal:
                self._errors.append(f"  {node.name}: {node.op_type}: {refusal}")
                found = [_Refused() for _ in node.output]
        several = found if isinstance(found, list) else [found]
        self._env.update(zip(node.output, several, strict=False))

    def _taken(self, node: onnx.NodeProto, given: Sequence[Any]) -> Any:
        kind = node.op_type
        if node.domain not in ("", "ai.onnx"):
            raise RefusalError(f"the operator is not of ONNX's own domain, but of {node.domain}")
        values = [one for one in given if isinstance(one, Value)]
        parts = [one for one in given if isinstance(one, _Part)]
        if not values and not parts:
            return self._folded(node, given)
        attributes = {a.name: onnx.helper.get_attribute_value(a) for a in node.attribute}
        if kind == "Shape":
            sizes = given[0].shape[attributes.get("start", 0) : attributes.get("end")]
            return np.array(sizes, np.int64)
        if kind == "ConstantOfShape":
            return self._folded(node, given)
        handler = getattr(self, f"_op_{kind.lower()}", None)
        if parts and kind not in ("Add", "Mul", "Where"):
            raise RefusalError(f"what {parts[0].kind} of exported models makes is used otherwise")
        if kind in _MOVES and not any(isinstance(one, Value) for one in given[1:]):
            return self._moved(node, given)
        if kind in _OF_HOST and (kind in _COMPARE or any(one.dtype != "float32" for one in values)):
            dtype = "bool" if kind in _COMPARE else "int64"
            return self._c.of_host(_OF_HOST[kind], given, dtype, node.name)
        functions = {**_FUNCTIONS, **(_OF_HOST_ALONE if self._g.on_host else {})}
        if kind in functions:
            return self._g.function(functions[kind], given[0], node.name)
        if handler is None:
            lacks = kind in _OF_HOST_ALONE
            raise RefusalError(LACKS if lacks else "the operator is not compiled")
        return handler(node, attributes, *given)

    # By ONNX itself.

    def _folded(self, node: onnx.NodeProto, given: Sequence[Array | None]) -> list[Array]:
        """Constants folded by ONNX's reference."""
        if node.op_type == "GatherElements":  # the reference fails where an axis has length 1
            return [_gathered(node, *given)]
        own = onnx.NodeProto()
        own.CopyFrom(node)
        arrays = {f"in_{at}": one for at, one in enumerate(given) if one is not None}
        del own.input[:]
        own.input.extend(f"in_{at}" if f"in_{at}" in arrays else "" for at in range(len(given)))
        make = onnx.helper.make_tensor_value_info
        inputs = [
            make(name, onnx.helper.np_dtype_to_tensor_dtype(one.dtype), one.shape)
            for name, one in arrays.items()
        ]
        outputs = [onnx.helper.make_empty_tensor_value_info(name) for name in node.output if name]
        graph = onnx.helper.make_graph([own], "one", inputs, outputs)
        model = onnx.helper.make_model(graph, opset_imports=self._model.opset_import)
        found = iter(cast(Sequence[Array], ReferenceEvaluator(model).run(None, arrays)))
        return [_own(np.asarray(next(found))) if name else np.zeros(0) for name in node.output]

    def _moved(self, node: onnx.NodeProto, given: Sequence[Any]) -> Any:
        def move(places: Array) -> Any:
            return self._folded(node, [places, *given[1:]])

        return self._c.moved(given[0], move, node.name)

    # Elements.

    def _op_identity(self, node: onnx.NodeProto, attributes: Any, x: Value) -> Value:
        return x

    _op_dropout = _op_identity

    def _op_cast(self, node: onnx.NodeProto, attributes: Mapping[str, Any], x: Value) -> Value:
        wanted = _TYPES.get(attributes["to"])
        if wanted is None:
            name = onnx.TensorProto.DataType.Name(attributes["to"])
            raise RefusalError(f"tensors must stay float32, integers or booleans, not {name}")
        return x if wanted == x.dtype else self._c.of_host("cast", [x], wanted, node.name)

    def _op_add(self, node: onnx.NodeProto, attributes: Any, x: Any, y: Any) -> Any:
        for one, other in ((x, y), (y, x)):
            if isinstance(one, _Part):
                self._require(one, "erf", _number(other) == 1)
                return _Part("one_and_erf", one.of)
        return self._c.add(x, y, 1.0, node.name)

    def _op_sub(self, node: onnx.NodeProto, attributes: Any, x: Any, y: Any) -> Value:
        return self._c.add(x, y, -1.0, node.name)

    def _op_mul(self, node: onnx.NodeProto, attributes: Any, x: Any, y: Any) -> Any:
        for one, other in ((x, y), (y, x)):
            if isinstance(one, _Part):
                return self._shared(node, one, other)
        return self._c.multiply(x, y, node.name)

    def _shared(self, node: onnx.NodeProto, part: _Part, other: Any) -> Any:
        """A factor of ``x * (1 + erf(x / sqrt(2))) / 2``."""
        if part.kind == "one_and_erf" and other is part.of:
            return _Part("twice_gelu", part.of)
        if part.kind == "one_and_erf" and _number(other) == 0.5:
            return _Part("half_share", part.of)
        half = _scaled(other) if isinstance(other, Value) else None
        is_half = half is not None and half[0] == 0.5 and half[1] is part.of
        whole = (
            (part.kind == "twice_gelu" and _number(other) == 0.5)
            or (part.kind == "half_share" and other is part.of)
            or (part.kind == "one_and_erf" and is_half)
        )
        self._require(part, part.kind, whole)
        return self._g.function("gelu", part.of, node.name)

    def _require(self, part: _Part, kind: str, right: bool) -> None:
        if part.kind != kind or not right:
            raise RefusalError("erf must be a part of GELU, x * (1 + erf(x / sqrt(2))) / 2")

    def _op_erf(self, node: onnx.NodeProto, attributes: Any, x: Value) -> _Part:
        found = _scaled(x)
        if found is None or abs(found[0] * np.sqrt(2) - 1) > 1e-6:
            raise RefusalError("erf must be a part of GELU, x * (1 + erf(x / sqrt(2))) / 2")
        return _Part("erf", found[1])

    def _op_div(self, node: onnx.NodeProto, attributes: Any, x: Any, y: Any) -> Value:
        if isinstance(y, Value) and id(y) in self._roots:
            return self._g.multiply(self._c.value(x), self._root(y), node.name)
        return self._c.divide(x, y, node.name)

    def _op_neg(self, node: onnx.NodeProto, attributes: Any, x: Value) -> Value:
        return self._g.scale(x, -1.0, node.name)

    def _op_sqrt(self, node: onnx.NodeProto, attributes: Any, x: Value) -> Value:
        made = self._c.sqrt(x, node.name)
        self._roots[id(made)] = x
        return made

    def _root(self, y: Value) -> Value:
        return self._g.function("rsqrt", self._roots[id(y)])

    def _op_reciprocal(self, node: onnx.NodeProto, attributes: Any, x: Value) -> Value:
        return self._root(x) if id(x) in self._roots else self._g.function("reciprocal", x)

    def _op_pow(self, node: onnx.NodeProto, attributes: Any, x: Any, y: Any) -> Value:
        return self._c.power(x, y, node.name)

    def _op_gelu(self, node: onnx.NodeProto, attributes: Mapping[str, Any], x: Value) -> Value:
        return self._c.gelu(x, attributes.get("approximate", b"none").decode(), node.name)

    def _op_isnan(self, node: onnx.NodeProto, attributes: Any, x: Value) -> _Part:
        return _Part("isnan", x)

    def _op_where(self, node: onnx.NodeProto, attributes: Any, m: Any, x: Any, y: Any) -> Value:
        if isinstance(m, _Part):
            if m.kind != "isnan" or y is not m.of:
                raise RefusalError("IsNaN must choose what is put in place of a NaN")
            return m.of
        if (dtype := self._c.whole(x).dtype) != "float32":
            return self._c.of_host("where", [m, x, y], dtype, node.name)
        return self._c.where(m, x, y, node.name)

    # Rows.

    def _op_softmax(self, node: onnx.NodeProto, attributes: Mapping[str, Any], x: Value) -> Value:
        return self._c.softmax(x, attributes.get("axis", -1), node.name)

    def _op_layernormalization(
        self,
        node: onnx.NodeProto,
        attributes: Mapping[str, Any],
        x: Value,
        gain: Any,
        bias: Any = None,
    ) -> Value:
        return self._norm("layer_norm", node, attributes, x, gain, bias)

    def _op_rmsnormalization(
        self, node: onnx.NodeProto, attributes: Mapping[str, Any], x: Value, gain: Any
    ) -> Value:
        return self._norm("rms_norm", node, attributes, x, gain, None)

    def _norm(
        self,
        kind: str,
        node: onnx.NodeProto,
        attributes: Mapping[str, Any],
        x: Value,
        gain: Any,
        bias: Any,
    ) -> Value:
        axes = len(x.shape) - attributes.get("axis", -1) % len(x.shape)
        epsilon = attributes.get("epsilon", 1e-5)
        return self._c.norm(kind, x, axes, gain, bias, epsilon, node.name)

    def _op_reducesum(
        self, node: onnx.NodeProto, attributes: Mapping[str, Any], x: Value, axes: Any = None
    ) -> Value:
        own = attributes.get("axes", []) if axes is None else axes.tolist()
        if not own and attributes.get("noop_with_empty_axes"):
            return x
        more = {"keep": bool(attributes.get("keepdims", 1)), "name": node.name}
        return self._c.total(x, own, mean=node.op_type == "ReduceMean", **more)

    _op_reducemean = _op_reducesum

    # Products.

    def _op_matmul(self, node: onnx.NodeProto, attributes: Any, a: Any, b: Any) -> Value:
        return self._c.matmul(a, b, node.name)

    def _op_gemm(
        self, node: onnx.NodeProto, attributes: Mapping[str, Any], a: Any, b: Any, c: Any = None
    ) -> Value:
        factors = attributes.get("alpha", 1.0), attributes.get("beta", 1.0)
        if factors != (1, 1):
            raise RefusalError(f"alpha and beta must be 1, not {factors[0]} and {factors[1]}")
        a, b = (
            self._g.transpose(self._c.value(one), (1, 0)) if attributes.get(f"trans{side}") else one
            for side, one in (("A", a), ("B", b))
        )
        made = self._c.matmul(a, b, node.name)
        return made if c is None else self._c.add(made, c, 1.0, node.name)

    def _op_conv(
        self,
        node: onnx.NodeProto,
        attributes: Mapping[str, Any],
        x: Value,
        weight: Any,
        bias: Any = None,
    ) -> Value:
        axes = len(x.shape) - 2
        sizes: dict[str, Any] = {
            "stride": attributes.get("strides", [1] * axes),
            "padding": attributes.get("pads", [0] * axes),
            "dilation": attributes.get("dilations", [1] * axes),
            "groups": attributes.get("group", 1),
        }
        return self._c.convolution(x, weight, bias, **sizes, name=node.name)

    def _op_attention(
        self,
        node: onnx.NodeProto,
        attributes: Mapping[str, Any],
        query: Value,
        key: Value,
        value: Value,
        mask: Any = None,
        *cache: Any,
    ) -> Value:
        if len(query.shape) != 4 or any(one is not None for one in cache):
            raise RefusalError("attention must be of four axes, without a cache")
        if attributes.get("softcap", 0.0):
            raise RefusalError(f"softcap must be 0, not {attributes['softcap']}")
        causal = bool(attributes.get("is_causal", 0))
        more: dict[str, Any] = {"causal": causal, "scale": attributes.get("scale")}
        return self._c.attention(query, key, value, mask, **more, name=node.name)

    # Several tensors, and integers.

    def _op_concat(self, node: onnx.NodeProto, attributes: Mapping[str, Any], *parts: Any) -> Value:
        return self._c.join([self._c.whole(part) for part in parts], attributes["axis"])

    def _op_gather(
        self, node: onnx.NodeProto, attributes: Mapping[str, Any], table: Any, rows: Value
    ) -> Value:
        if attributes.get("axis", 0) != 0:
            raise RefusalError("integers must choose along the first axis")
        dtype = self._c.whole(table).dtype
        return self._c.of_host("rows", [table, rows], dtype, node.name)

    def _op_cumsum(
        self, node: onnx.NodeProto, attributes: Mapping[str, Any], x: Value, axis: Any
    ) -> Value:
        if x.dtype != "int64" or attributes.get("exclusive") or attributes.get("reverse"):
            raise RefusalError("running sums must be of integers, inclusive and forward")
        return self._c.of_host("cumsum", [x], "int64", node.name, int(axis) % len(x.shape))


def _modules(node: onnx.NodeProto) -> list[str]:
    """The name of a node, and those of the modules that it is part of, as PyTorch notes them."""
    noted = (p.value for p in node.metadata_props if p.key == "pkg.torch.onnx.name_scopes")
    scopes = ast.literal_eval(next(noted, "[]"))
    return [name for name in (*scopes[:-1], node.name) if name]


def _gathered(node: onnx.NodeProto, data: Any, index: Any) -> Array:
    """GatherElements of arrays."""
    axis = next((a.i for a in node.attribute if a.name == "axis"), 0) % data.ndim
    own = tuple(slice(None) if at == axis else slice(n) for at, n in enumerate(index.shape))
    return _own(np.take_along_axis(data[own], index % data.shape[axis], axis))


def _own(array: Array) -> Array:
    """An array in a type of the graph."""
    if array.dtype.kind in "iu":
        return array.astype(np.int64)
    return array if array.dtype.kind == "b" else array.astype(np.float32)


def _number(x: Any) -> float | None:
    """The number that a constant is."""
    return float(np.ravel(x)[0]) if isinstance(x, np.ndarray) and x.size == 1 else None


def _scaled(x: Value) -> tuple[float, Value] | None:
    """Factor and operand of what was multiplied by a number."""
    is_scaled = x.op == "arithmetic" and x.detail == "scale"
    return (x.parameter, x.inputs[0]) if is_scaled else None
