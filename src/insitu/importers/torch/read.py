"""PyTorch -> graph, through torch.export: `read_torch(module, example)`, `read_program`, and `read_pt2(path)`.

The program is used as torch.export gives it, undecomposed and in eval mode, so that batch_norm, dropout and adaptive
pools keep their form. This file walks over it; the tables of conv.py, math.py and layout.py say what each aten op
means. Values are named after the module that made them.
"""

from __future__ import annotations

import operator
import re
import warnings
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from insitu.errors import GraphError, ModelError, Unsupported, needs
from insitu.graph import Builder, Graph, Value, build, f32
from insitu.importers.canonical.clean import clean
from insitu.importers.instead import instead_of
from insitu.importers.safe.child import read_in_child
from insitu.importers.sizes import Shapes, example_at, settled, shapes_of
from insitu.importers.torch import blocks
from insitu.importers.torch import conv as torch_conv
from insitu.importers.torch import layout as torch_layout
from insitu.importers.torch import math as torch_math
from insitu.importers.torch.call import Call
from insitu.importers.torch.views import mutates_a_view

TABLE = torch_conv.TABLE | torch_math.TABLE | torch_layout.TABLE
WHOLE = "`torch.export.export(module, example)` shows the whole message"
EMBEDDED = "for an embedding, pass the embedded vectors"
FLOATS = ("float32", "float64", "float16", "bfloat16")


def read_torch(module, example=None, *, batch: int | None = None, name: str = "") -> Graph:
    """The graph of a torch.nn.Module; `example` is an input tensor, or a tuple of them. The module is not changed."""
    export = torch_export()
    if isinstance(module, export.ExportedProgram):
        return read_program(module, batch=batch or 1, name=name or "program", examples=shapes_of(example))
    inputs = _example(example, batch)
    with _eval_mode(module), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            program = export.export(module, inputs)
        except Exception as e:  # dynamo has dozens of exception types
            shapes = ", ".join(str(list(x.shape)) for x in inputs)
            raise ModelError(
                f"torch.export cannot trace it with an input of shape {shapes}: {_first_line(e)}",
                where=type(module).__name__,
                hint=EMBEDDED if "scalar types: Long, Int" in str(e) else WHOLE,
            ) from e
    return read_program(program, name=name or type(module).__name__)


def read_pt2(path: str | Path, *, batch: int = 1, examples: Shapes = ()) -> Graph:
    """The graph of a saved ExportedProgram, read in a child process with limits on time and memory."""
    return read_in_child(Path(path), batch=batch, examples=examples)


def read_program(program, *, batch: int = 1, name: str = "program", names: Names | None = None,
                 examples: Shapes = ()) -> Graph:  # fmt: skip
    """The graph of a torch.export.ExportedProgram. A dynamic first axis becomes `batch`, others those of `examples`."""
    program = _closed(program, batch, examples)
    return clean(raw_graph(program, batch=batch, name=name, names=names or Names()))


def _closed(program, batch: int, examples: Shapes) -> Any:
    """The program with all sizes fixed: exported once more if it leaves any but the batch open."""
    import torch

    made = {n.name: n.meta.get("val") for n in program.graph.nodes if n.op == "placeholder"}
    given: list[tuple[str, Any]] = [(str(name), made.get(name)) for name in program.graph_signature.user_inputs]
    if not any(_is_open(d) for _, x in given for d in getattr(x, "shape", ())[1:]):
        return program
    shapes = [_input_shape(name, x, batch, example_at(examples, i)) for i, (name, x) in enumerate(given)]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        zeros = tuple(torch.zeros(*shape, dtype=x.dtype) for shape, (_, x) in zip(shapes, given))
        return torch_export().export(program.module(), zeros)


def _is_open(size) -> bool:
    return not isinstance(size, int)


def raw_graph(program, *, batch: int, name: str, names: Names) -> Graph:
    """Before clean(): one or two ops per aten call, with transposes around ops that are NHWC inside."""
    builder = Builder(name)
    for text in blocks.notes(program.graph):
        builder.note(text)
    if mutates_a_view(program.graph):
        # writes through a view need torch's own functionalisation, which removes dropout
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            program = program.run_decompositions({})
        builder.note("it writes through views: torch functionalised it, which removed dropout")
    with build(builder):
        walk = _Walk(program, builder, batch, names)
        wanted = {str(o) for o in program.graph_signature.user_outputs}
        live = _live([n for n in program.graph.nodes if str(n.name) in wanted])
        for node in program.graph.nodes:
            if node in live or node.op == "placeholder":
                walk.visit(node)
        return builder.graph(*_outputs(walk))


def _live(left: list) -> set:
    """The nodes that these depend on. Other nodes, such as a counter of batches, are left out."""
    found = set()
    while left:
        node = left.pop()
        if node not in found:
            found.add(node)
            left.extend(node.all_input_nodes)
    return found


def layer_of(node, op: str) -> str:
    """The path of the module that a node is in; for ops written in a container's forward, followed by the op's name."""
    path, kind = module_of(node)
    if kind.startswith("torch.nn.modules.") and path:
        return path
    return f"{path}.{op}" if path else op


def module_of(node) -> tuple[str, str]:
    """(path, class) of the innermost module that a node is in."""
    stack = list((node.meta.get("nn_module_stack") or {}).values())
    if not stack:
        return "", ""
    path, kind = stack[-1]
    kind = kind if isinstance(kind, str) else f"{kind.__module__}.{kind.__qualname__}"
    return re.sub(r"^L\['self'\]\.?", "", str(path)), kind


@dataclass(frozen=True)
class Names:
    """Names for things that torch itself cannot name."""

    tensors: dict[int, str] = field(default_factory=dict)  # data pointer -> name
    inputs: tuple[str, ...] = ()
    layer: Callable = layer_of  # (node, op) -> name of the result


@dataclass
class _Walk:
    """The values made so far, by the node that made them."""

    program: Any
    builder: Builder
    batch: int
    names: Names
    env: dict = field(default_factory=dict)
    weights: dict = field(default_factory=dict)
    parameters: dict = field(default_factory=dict)  # data pointer and shape -> value: tied weights are one constant

    def visit(self, node) -> None:
        if node.op == "placeholder":
            self.env[node] = _placeholder(self, node)
        elif node.op == "get_attr":
            found = _attribute(node.graph.owning_module, str(node.target))
            self.env[node] = self.parameter(str(node.target), found) if hasattr(found, "data_ptr") else found
        elif node.op == "call_function":
            self.env[node] = _call(self, node)

    def block(self, graph, given: Sequence) -> Any:
        """The result of a block for these arguments."""
        live = _live([*blocks.result(graph)])
        self.env.update(zip((n for n in graph.nodes if n.op == "placeholder"), given))
        for node in graph.nodes:
            if node in live and node.op != "placeholder":
                self.visit(node)
        return self.argument(blocks.result(graph))

    def parameter(self, name: str, tensor) -> Value | None:
        key = (tensor.data_ptr(), tuple(tensor.shape), tensor.stride())
        if tensor.numel() == 0 or key not in self.parameters:
            self.parameters[key] = _constant(self.builder, self.names.tensors.get(key[0], name), tensor)
        return self.parameters[key]

    def trains(self, name: str) -> bool:
        """Keras keeps statistics as parameters too, but they need no gradient."""
        return not self.names.tensors or _tensor(self.program, name).requires_grad

    def argument(self, x) -> Any:
        """An argument of a call, with nodes replaced by their results."""
        if isinstance(x, list | tuple):
            return [self.argument(v) for v in x]
        return self.env[x] if type(x).__module__.startswith("torch.fx") else x


def _placeholder(walk: _Walk, node) -> Value | None:
    signature = walk.program.graph_signature
    name = str(node.name)
    for table in (
        signature.inputs_to_parameters,
        signature.inputs_to_buffers,
        signature.inputs_to_lifted_tensor_constants,
    ):
        if name in table:
            value = walk.parameter(table[name], _tensor(walk.program, table[name]))
            if value is not None and name in signature.inputs_to_parameters and walk.trains(table[name]):
                walk.builder.parameters[value.name] = value.name
            return value
    if name not in signature.user_inputs:
        return None
    example = node.meta.get("val")
    if not hasattr(example, "shape"):
        return None  # a plain number or None: torch.export has inlined it
    given = walk.names.inputs[len(walk.builder.inputs) :]
    for note in _integers(node, name, example):
        walk.builder.note(note)
    return walk.builder.input(given[0] if given else name, f32(*_input_shape(name, example, walk.batch, None)))


def _tensor(program, name: str):
    return program.state_dict[name] if name in program.state_dict else program.constants[name]


def _integers(node, name: str, example) -> Iterator[str]:
    """A note if an input of integers is only converted to float: then it may just as well be float."""
    dtype = str(example.dtype).removeprefix("torch.")
    if dtype in FLOATS:
        return
    uses = {getattr(user.target, "__name__", str(user.target)): _made_float(user) for user in node.users}
    bad = next((op for op, fine in uses.items() if not fine), None)
    if bad is not None or dtype == "bool":
        raise Unsupported(
            f"is {dtype} and goes into {bad}; model inputs must be float",
            where=f"input {name}",
            hint=f"convert it first (x = x.float()); {EMBEDDED}",
        )
    yield f"input {name} is {dtype} in the model and f32 here"


def _made_float(node) -> bool:
    """Does this convert to float, or divide, which turns integers into floats?"""
    made = node.meta.get("val")
    op = getattr(node.target, "_schema", None)
    kind = op.name.split("::")[1] if op is not None else ""
    if "assert" in kind:
        return True
    known = kind in ("to", "_to_copy", "type_as") or (kind == "div" and "rounding_mode" not in node.kwargs)
    return known and str(getattr(made, "dtype", "")).removeprefix("torch.") in FLOATS


def _input_shape(name: str, traced, batch: int, example: tuple[int, ...] | None) -> tuple[int, ...]:
    return settled([None if _is_open(d) else d for d in traced.shape], batch, example, f"input {name}")


def _constant(builder: Builder, name: str, tensor) -> Value | None:
    """Floats become f32; tensors of other kinds keep their type."""
    tensor = tensor.detach().cpu()
    if tensor.numel() == 0:
        return None
    if str(tensor.dtype).removeprefix("torch.") in FLOATS:
        return builder.constant(name, np.array(tensor.float().numpy()))
    if str(tensor.dtype) in ("torch.int64", "torch.int32", "torch.int8", "torch.uint8", "torch.bool"):
        return builder.constant(name, np.array(tensor.numpy()))
    raise Unsupported(f"is {tensor.dtype}", where=name)


def _attribute(module, path: str):
    for part in path.split("."):
        module = getattr(module, part)
    return module


# one call


def _call(walk: _Walk, node):
    inner = blocks.submodule(node)
    if inner:
        return walk.block(inner[0].graph, walk.argument(inner[1]))
    args, kwargs = walk.argument(node.args), {k: walk.argument(v) for k, v in node.kwargs.items()}
    if node.target is operator.getitem:
        return args[0][args[1]]
    if getattr(node.target, "namespace", "") != "aten":
        return _python(node, args)
    op = _op_name(node.target)
    if op == "sym_size":
        return args[0].shape[args[1]]
    call = Call(op, walk.names.layer(node, op), walk.builder, walk.weights)
    rule = TABLE.get(op)
    if rule is None:
        raise Unsupported(f"aten.{op} is not supported", where=call.name, hint=instead_of(op))
    return _apply(call, rule, args, kwargs)


def _apply(call: Call, rule, args: Sequence, kwargs: dict):
    """Apply the op's rule; errors name the layer."""
    kwargs = {k: v for k, v in kwargs.items() if k not in IGNORED}
    try:
        return rule(call, *args, **kwargs)
    except Unsupported:
        raise
    except GraphError as e:
        raise Unsupported(f"aten.{call.op}: {e.what}", where=call.name, hint=e.hint) from e
    except (TypeError, AttributeError, KeyError, ValueError, IndexError) as e:
        # an argument that no rule expects, such as a tensor instead of a number
        raise Unsupported(f"aten.{call.op} called in a way that is not supported ({e})", where=call.name) from e


# keyword arguments that make no difference here
IGNORED = ("memory_format", "layout", "device", "pin_memory", "generator", "non_blocking", "copy")


def _op_name(target) -> str:
    """`aten::relu_` and `aten::relu` are the same in a graph without memory."""
    name = target._schema.name.split("::")[1]
    return name[:-1] if name.endswith("_") and not name.endswith("__") else name


def _python(node, args):
    """Arithmetic on sizes, and the checks torch.export puts around them."""
    if all(isinstance(a, int | float | bool) for a in args) and callable(node.target):
        return node.target(*args)
    if "assert" in str(node.target) or "check" in str(node.target):
        return None
    raise Unsupported(f"{node.target} is not supported", where=layer_of(node, str(node.name)))


# the ends


def _outputs(walk: _Walk) -> list[Value]:
    found = []
    by_name = {str(n.name): n for n in walk.program.graph.nodes}
    for output in walk.program.graph_signature.user_outputs:
        value = walk.env.get(by_name.get(str(output)))
        if not isinstance(value, Value):
            raise Unsupported(f"output {output} is not a tensor of the graph")
        found.append(value)
    if not found:
        raise ModelError("it has no outputs")
    return found


def _example(example, batch: int | None) -> tuple:
    inputs = tuple(example) if isinstance(example, list | tuple) else (example,)
    if not inputs or not all(type(t).__module__.startswith("torch") for t in inputs):
        raise ModelError("a torch module needs an example input", hint="read_torch(module, torch.zeros(1, 3, 32, 32))")
    if batch is None:
        return inputs
    return tuple(t[:1].expand(batch, *t.shape[1:]).clone() if t.dim() else t for t in inputs)


@contextmanager
def _eval_mode(module) -> Iterator[None]:
    """Inside, the module is in eval mode; afterwards each submodule has its old mode."""
    modes = {m: m.training for m in module.modules()}
    module.eval()
    try:
        yield
    finally:
        for m, training in modes.items():
            m.training = training


def _first_line(e: Exception) -> str:
    return (str(e).strip() or type(e).__name__).splitlines()[0][:200]


def torch_export():
    """The module torch.export, or an error that says how to install it."""
    try:
        import torch.export
    except ModuleNotFoundError:
        raise needs("torch", "torch", "reading a torch model") from None
    return torch.export
