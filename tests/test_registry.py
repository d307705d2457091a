"""Outside ops/ and importers/ an op is a Python name or a declared property, never a string; nor is a kernel."""

import ast
import re
from pathlib import Path

import pytest

import insitu
import insitu.ops  # fills the registry
from insitu.deploy.estimate import DSP, FAMILIES, KINDS, OTHER, PLAIN, kind_of
from insitu.graph import REGISTRY
from insitu.toolchain.sources import C_FOLDER, kernel_paths

ROOT = Path(insitu.__file__).parent
OWN = ("ops", "importers")  # ops are declared in the first, foreign ops have names in the second
REASON = "# op by name:"  # on the same line, followed by the reason


def by_name(source: str) -> list[int]:
    """The lines that look up an op by a literal name, or decide by the name of an op or of a kernel."""
    lines = source.splitlines()
    found = {n.lineno for n in ast.walk(ast.parse(source)) if _looks_up(n) or _decides(n) or _lists(n)}
    return sorted(line for line in found if REASON not in lines[line - 1])


def _looks_up(node: ast.AST) -> bool:
    """lookup("relu"), REGISTRY["relu"]"""
    if isinstance(node, ast.Call):
        return _is(node.func, "lookup") and any(isinstance(a, ast.Constant | ast.JoinedStr) for a in node.args)
    return isinstance(node, ast.Subscript) and _is(node.value, "REGISTRY") and isinstance(node.slice, ast.Constant)


def _decides(node: ast.AST) -> bool:
    """op.name == "relu", TABLE[op.name], TABLE.get(op.name), op.name.startswith("conv")"""
    if isinstance(node, ast.Compare):
        sides = (node.left, *node.comparators)
        return any(map(_op_name, sides)) or (any(map(_kernel, sides)) and any(map(_literal, sides)))
    if isinstance(node, ast.Subscript):
        return _op_name(node.slice)
    if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute):
        read = node.func.attr == "get" and any(map(_op_name, node.args))
        named = _op_name(node.func.value) or _kernel(node.func.value)
        return read or (named and node.func.attr in ("startswith", "endswith", "partition"))
    return False


def _lists(node: ast.AST) -> bool:
    """{"relu", "relu6"}, {relu: "relu", relu6: "relu6"}: two or more, and nothing but names of ops"""
    rows = (node.keys, node.values) if isinstance(node, ast.Dict) else (getattr(node, "elts", ()),)
    return any(len(row) > 1 and all(isinstance(k, ast.Constant) and k.value in REGISTRY for k in row) for row in rows)


def _op_name(node: ast.AST) -> bool:
    """`node.op.name` or `op.name`"""
    if not isinstance(node, ast.Attribute) or node.attr != "name":
        return False
    return _is(node.value, "op") or (isinstance(node.value, ast.Attribute) and node.value.attr == "op")


def _kernel(node: ast.AST) -> bool:
    """`kernel`, `work.kernel` or `call.function`, which name a C kernel"""
    return _is(node, "kernel") or (isinstance(node, ast.Attribute) and node.attr in ("kernel", "function"))


def _literal(node: ast.AST) -> bool:
    return isinstance(node, ast.Constant | ast.JoinedStr) or (
        isinstance(node, ast.Tuple) and any(map(_literal, node.elts))
    )


def _is(node: ast.AST, name: str) -> bool:
    return isinstance(node, ast.Name) and node.id == name


def test_no_stage_knows_an_op_by_its_name():
    files = [f for f in sorted(ROOT.rglob("*.py")) if f.relative_to(ROOT).parts[0] not in OWN]
    found = [f"{f.relative_to(ROOT)}:{line}" for f in files for line in by_name(f.read_text())]
    assert not found, f"an op by name: {', '.join(found)}"


@pytest.mark.parametrize("source", (
    'lookup("relu")(x)', 'lookup(f"{name}_s8")', 'REGISTRY["relu"]', 'node.op.name == "relu"', 'op.name in ("a", "b")',
    'TABLE[node.op.name]', 'TABLE.get(node.op.name)', 'node.op.name.startswith("conv")', 'kernel.startswith(name)',
    'call.function == "conv2d_s8"', 'work.kernel in ("a", "b")', '"_dw" in kernel', 'f"{role}_" in kernel',
    '{"relu", "relu6"}', '{relu: "relu", relu6: "relu6"}', 'x in ("relu", "tanh")',
))  # fmt: skip
def test_every_way_to_know_an_op_by_its_name_is_seen(source):
    assert by_name(source) == [1]
    assert by_name(f"{source}  {REASON} it was given by a user") == []


@pytest.mark.parametrize(
    "source", ("node.op is relu", "lookup(name)", 'f"{node.op.name} has no gradient"', "TABLE[node.op]")
)
def test_names_may_be_read_and_printed(source):
    assert by_name(source) == []


def test_every_kind_of_kernel_with_a_rate_has_kernels():
    """deploy/estimate.py knows kernels by how their names begin: a renamed kernel would silently count as another."""
    kernels = list(kernel_paths(C_FOLDER))
    found = {kind_of(kernel) for kernel in kernels}
    assert set(DSP) == set(PLAIN) == found
    assert {*FAMILIES, *KINDS} == {kind for kind in found if kind != OTHER and kind[-3:] not in ("_dw", "_dx")}


def test_twins_take_what_their_ops_take():
    """An int8 twin has the attributes of its float op, because the quantizer passes them on unchanged; only softmax_s8
    has no axis, and is lowered by a function of its own."""
    for op in REGISTRY.values():
        twin = op.facts.int8
        if twin is not None:
            assert twin.kind == "int8" and set(op.defaults) - {"axis"} <= set(twin.defaults), op.name


def test_cases_say_one_per_channel_not_a_channel():
    """`a slope a channel` is hard to read."""
    named = [(op.name, case.name) for op in REGISTRY.values() for case in op.cases]
    assert [n for n in named if re.search(r"\b(a|an) \w+ (a|an) \w+$", n[1])] == []
