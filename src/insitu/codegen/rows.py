"""The functions of a verb whose input arrives row by row: begin, rows (or bytes), end, and all of them in one call.

A few bytes behind the arena record how much of an image has arrived, and which function it belongs to. A call out of
order is refused with a code, and ends the image. Only `end` uses the state.
"""

from __future__ import annotations

from zlib import crc32

from insitu.codegen import c
from insitu.codegen.function import COPY, FINITE, Function
from insitu.codegen.stripes import Stripes
from insitu.graph.loops import Loop
from insitu.planner import Plan

CURSOR_BYTES = 16  # of the struct below, aligned
# what the calls return
OK, NOT_BEGUN, MISSING, TOO_MANY = range(4)
COMPLAINTS = {
    NOT_BEGUN: "no image has been begun, or another call has ended it",
    MISSING: "rows are missing",
    TOO_MANY: "more rows than the image has",
}
CODES = {OK: "OK", NOT_BEGUN: "NOT_BEGUN", MISSING: "MISSING", TOO_MANY: "TOO_MANY"}


def takes_rows(plan: Plan) -> bool:
    return bool(plan.graph.by_rows)


def with_cursor(arena: int) -> int:
    """The bytes of an arena with the cursor behind it."""
    return -(-arena // CURSOR_BYTES) * CURSOR_BYTES + CURSOR_BYTES


def row_lines(prefix: str, arena: int) -> list[str]:
    """The part of the header about rows: the codes, and the record of how far an image has arrived."""
    word = prefix.upper()
    notes = {OK: "", **COMPLAINTS}
    codes = [f"    {word}_ROWS_{name} = {code}," + (f"  {c.comment(notes[code])}" if notes[code] else "")
             for code, name in CODES.items()]  # fmt: skip
    return [
        "/* The image may arrive in pieces: call begin, then rows from the top until all are given, then end. Each",
        " * call returns one of these codes; after anything but OK the image is over, the state is unchanged, and the",
        " * next call must be begin. From begin to end the arena must not be used for anything else. */",
        "enum {", *codes, "};", "",
        "/* how much of an image has arrived: kept in the last bytes of the arena */",
        f"typedef struct {{\n    uint32_t call;\n    int32_t stripe, bytes, broken;\n}} {prefix}_rows;",
        f"#define {word}_ROWS_AT {arena - CURSOR_BYTES}", "",
    ]  # fmt: skip


def forget_rows(prefix: str) -> str:
    """A call that uses the arena for something else ends an unfinished image."""
    return f"    {_cursor(prefix)}->call = 0;"


def _cursor(prefix: str) -> str:
    return f"(({prefix}_rows *)(arena + {prefix.upper()}_ROWS_AT))"


class RowsFunction(Function):
    """Writes `<prefix>_<verb>` and its parts."""

    def __init__(self, verb: str, plan: Plan, prefix: str, *rest):
        self.stripes: Stripes | None = None
        super().__init__(verb, plan, prefix, *rest)
        index = next(i for i, v in enumerate(self.graph.inputs) if v.name == self.graph.by_rows)
        self.image, self.image_name = self.graph.inputs[index], self.inputs[index]
        self.others = [pair for i, pair in enumerate(zip(self.graph.inputs, self.inputs)) if i != index]
        self.number = crc32(f"{prefix}_{verb}".encode()) | 1

    @property
    def kernels(self) -> set[str]:
        return super().kernels | {COPY}

    # signatures -------------------------------------------------------------------------------

    def signatures(self) -> dict[str, str]:
        """begin, rows, bytes and end."""
        name, kind = f"{self.prefix}_{self.verb}", self.image.type.ctype
        return {
            "begin": f"void {name}_begin(unsigned char *arena)",
            "rows": f"int32_t {name}_rows(unsigned char *arena, const {kind} *{self.image_name}, int32_t rows)",
            "bytes": f"int32_t {name}_bytes(unsigned char *arena, const void *{self.image_name}, int32_t bytes)",
            "end": f"int32_t {name}_end({', '.join(self.parameters(self.others))})",
        }

    def prototype(self) -> list[str]:
        made, height = self.signatures(), self.image.shape[1]
        return [
            *super().prototype(),
            c.comment(f"the same with {self.image_name} in pieces of any number of rows, {height} in total"),
            *(f"{made[part]};" for part in ("begin", "rows", "end")),
            c.comment("the same for pieces that do not end with a row"),
            f"{made['bytes']};",
        ]

    # bodies -----------------------------------------------------------------------------------

    def _stripes(self, step: int, loop: Loop) -> list[str]:
        if step or not loop.source:
            return super()._stripes(step, loop)
        self.stripes = self._made(step, loop)
        watched = any(v.name == self.graph.by_rows for v, _ in self.guarded)
        self._taken = self.stripes.arriving(FINITE if watched else "")
        self.tables += [*self.stripes.tables, ""]
        return []

    def functions(self) -> list[str]:
        made = self.signatures()
        return [
            made["begin"], "{", *self._begin(), "}", "",
            made["bytes"], "{", *self._bytes(), "}", "",
            made["rows"], "{", *self._rows(), "}", "",
            made["end"], "{", *self._end(), "}", "",
            self.signature(), "{", *self._all(), "}", "",
        ]  # fmt: skip

    def _begin(self) -> list[str]:
        return [
            f"    {self.prefix}_rows *const now = {_cursor(self.prefix)};",
            f"    now->call = {self.number}u;",
            "    now->stripe = now->bytes = now->broken = 0;",
        ]

    def _bytes(self) -> list[str]:
        return [
            f"    {self.prefix}_rows *const now = {_cursor(self.prefix)};",
            f"    const unsigned char *from = {self.image_name};",
            *self._refuse(f"now->call != {self.number}u", NOT_BEGUN),
            *self._refuse(f"bytes < 0 || bytes > {self.image.type.bytes} - now->bytes", TOO_MANY),
            *self._taken,
            "    now->bytes += bytes;",
            f"    return {self._code(OK)};",
        ]

    def _rows(self) -> list[str]:
        row = self.image.type.bytes // self.image.shape[1]
        # an impossible number of rows must not overflow: it becomes one that is refused
        return [
            f"    const int32_t most = rows < 0 || rows > {self.image.shape[1]} ? {self.image.shape[1] + 1} : rows;",
            f"    return {self.prefix}_{self.verb}_bytes(arena, {self.image_name}, most * {row});",
        ]

    def _end(self) -> list[str]:
        others = [(v, name) for v, name in self.guarded if v is not self.image]
        watched = len(others) < len(self.guarded)
        return [
            f"    {self.prefix}_rows *const now = {_cursor(self.prefix)};",
            *(["    (void)state;"] if self.stateful else []),
            *self._refuse(f"now->call != {self.number}u", NOT_BEGUN),
            *self._refuse(f"now->bytes != {self.image.type.bytes}", MISSING),
            "    now->call = 0;",
            *self._guard(others, "now->broken" if watched else "", self._code(OK)),
            *(self._copy_in(v, name) for v, name in self.others), *self.body, *self.ending,
            f"    return {self._code(OK)};",
        ]  # fmt: skip

    def _all(self) -> list[str]:
        name, rest = f"{self.prefix}_{self.verb}", [name for _, name in self.others]
        state = ["state"] if self.stateful else []
        return [
            f"    {name}_begin(arena);",
            f"    (void){name}_bytes(arena, {self.image_name}, {self.image.type.bytes});",
            f"    (void){name}_end({', '.join([*state, 'arena', *rest, *self.outputs])});",
        ]

    def _refuse(self, wrong: str, code: int) -> list[str]:
        ends = ["        now->call = 0;"] if code != NOT_BEGUN else []
        return [f"    if ({wrong}) {{", *ends, f"        return {self._code(code)};", "    }"]

    def _code(self, code: int) -> str:
        return f"{self.prefix.upper()}_ROWS_{CODES[code]}"
