"""The persistent state of a training program: its struct, its initial content, and saving and loading it.

A saved state is 16 bytes of header (magic, model, size, CRC-32) and the bytes of the struct. Loading checks all
four before it changes anything, so a wrong or damaged file leaves the state as it was.
"""

from __future__ import annotations

import zlib
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from insitu.codegen import c
from insitu.codegen.constants import Constants
from insitu.errors import DataError
from insitu.graph import Value

MAGIC = 0x31534E49  # "INS1"
HEADER_BYTES = 16
ADDED = {"body_rate": np.ones(1, np.float32)}  # fields that states of 0.1 do not have, and what they stand for there
# what <prefix>_load returns
LOADED, WRONG_SIZE, WRONG_MAGIC, WRONG_MODEL, DAMAGED = range(5)
COMPLAINTS = {
    WRONG_SIZE: "has the wrong size",
    WRONG_MAGIC: "is not a saved state",
    WRONG_MODEL: "belongs to another model or scheme",
    DAMAGED: "is damaged",
}


@dataclass(frozen=True, eq=False)
class StateLayout:
    """The fields of the state struct, their offsets and initial contents."""

    fields: tuple[Value, ...]
    first: dict[str, np.ndarray]
    model: int  # identifies the program that a state belongs to
    older: int | None = None  # the same before it had the fields that were added

    @property
    def bytes(self) -> int:
        return sum(v.type.bytes for v in self.fields)

    def offsets(self) -> dict[str, int]:
        found, at = {}, 0
        for v in self.fields:
            found[v.name] = at
            at += v.type.bytes
        return found

    @cached_property
    def names(self) -> dict[str, str]:
        """The C name of each field. Names in capitals are reserved for tensors, which are macros."""
        fresh, found = c.Names(), {}
        for v in self.fields:
            word = c.identifier(v.name)
            found[v.name] = fresh.fresh(word.lower() if word == word.upper() else word)
        return found

    def pack(self, arrays: dict[str, np.ndarray]) -> bytes:
        return b"".join(np.ascontiguousarray(arrays[v.name], v.type.numpy).tobytes() for v in self.fields)

    def put(self, state: np.ndarray, arrays: Mapping[str, np.ndarray]) -> None:
        """Write these fields, as far as there are such, into the struct's bytes."""
        offsets, named = self.offsets(), [v for v in self.fields if v.name in arrays]
        given = [np.asarray(arrays[v.name], v.type.numpy).reshape(v.shape).tobytes() for v in named]
        for v, data in zip(named, given):  # all of them fit: nothing is written otherwise
            start = offsets[v.name]
            state[start : start + len(data)] = np.frombuffer(data, np.uint8)

    def saved(self, body: bytes) -> bytes:
        """The struct's bytes with their header, as <prefix>_save writes them."""
        return np.array([MAGIC, self.model, len(body), zlib.crc32(body)], "<u4").tobytes() + body

    def unpack(self, data: bytes) -> dict[str, np.ndarray]:
        return {name: field.copy() for name, field in self.views(data).items()}

    def views(self, data: bytes | np.ndarray) -> dict[str, np.ndarray]:
        """The fields where they are: those of an array can be written."""
        offsets = self.offsets()
        return {
            v.name: np.frombuffer(data, v.type.numpy, v.type.size, offsets[v.name]).reshape(v.shape)
            for v in self.fields
        }


def layout(fields: tuple[Value, ...], first: dict[str, np.ndarray], name: str) -> StateLayout:
    kept = tuple(v for v in fields if v.name not in ADDED)
    older = None if kept == fields else identity(kept, name)
    return StateLayout(fields, {v.name: first[v.name] for v in fields}, identity(fields, name), older)


def identity(fields: tuple[Value, ...], name: str) -> int:
    """The number that a state must have to belong to this program."""
    words = name + "".join(f"{v.name}:{v.type.dtype}{v.shape}" for v in fields)
    return zlib.crc32(words.encode())


def brought_up(data: bytes, state: StateLayout) -> bytes:
    """A whole state that this program saved before fields were added, with them; anything else as it is."""
    words, body = np.frombuffer(data[:HEADER_BYTES], "<u4") if len(data) > HEADER_BYTES else (), data[HEADER_BYTES:]
    kept = [v for v in state.fields if v.name not in ADDED]
    size = sum(v.type.bytes for v in kept)
    if state.older is None or tuple(words) != (MAGIC, state.older, size, zlib.crc32(body)) or len(body) != size:
        return data
    old = StateLayout(tuple(kept), {}, state.older).unpack(body)
    return state.saved(state.pack({**old, **ADDED}))


def check_saved(data: bytes, state: StateLayout) -> bytes:
    """The struct's bytes in a saved state, or a DataError: <prefix>_load in Python."""
    if len(data) != HEADER_BYTES + state.bytes:
        what = f"{COMPLAINTS[WRONG_SIZE]}: {len(data)} bytes, not {HEADER_BYTES + state.bytes}"
        raise DataError(what, where="state", hint="a state belongs to the model, scheme and options it was saved with")
    words = np.frombuffer(data[:HEADER_BYTES], "<u4")
    for found, wanted, complaint in ((words[0], MAGIC, WRONG_MAGIC), (words[1], state.model, WRONG_MODEL)):
        if found != wanted:
            raise DataError(COMPLAINTS[complaint], where="state")
    body = data[HEADER_BYTES:]
    if words[2] != state.bytes or words[3] != zlib.crc32(body):
        raise DataError(COMPLAINTS[DAMAGED], where="state")
    return body


def state_struct(prefix: str, state: StateLayout) -> list[str]:
    """The lines of the header: the struct, its size when saved, and the three functions."""
    lines = [c.field(v.type.ctype, state.names[v.name], v.type.size, str(v.type)) for v in state.fields]
    return [
        f"/* persistent state: {state.bytes:,} bytes */",
        "typedef struct {", *lines, f"}} {prefix}_state;", "",
        f"#define {prefix.upper()}_SAVED_BYTES {HEADER_BYTES + state.bytes}", "",
        f"void {prefix}_init({prefix}_state *state);",
        f"void {prefix}_save(const {prefix}_state *state, uint8_t *out);",
        "/* 0, or an error, which changes nothing: 1 wrong size, 2 not a state, 3 of another model, 4 damaged */",
        f"int32_t {prefix}_load({prefix}_state *state, const uint8_t *in, uint32_t bytes);", "",
    ]  # fmt: skip


CLEAR = """static void clear(void *p, int32_t n)
{
    for (int32_t i = 0; i < n; i++) {
        ((uint8_t *)p)[i] = 0;
    }
}

"""


WORTH = 64  # bytes that packing must save: the size of unpack_bits


def pack_bits(array: np.ndarray) -> tuple[np.ndarray, int]:
    """Integers packed with as many bits each as the largest needs, and that number of bits; unpack_bits reads this."""
    numbers = array.ravel().astype(np.int64)
    bits = int(np.maximum(numbers, ~numbers).max(initial=0)).bit_length() + 1
    each = (numbers[:, None] >> np.arange(bits) & 1).astype(np.uint8)
    return np.packbits(each.ravel(), bitorder="little"), bits


def _first(state: StateLayout, v: Value, constants: Constants) -> str:
    """The line that sets a field's initial content: zeros are cleared, the rest is in flash, biases with fewer bits."""
    array, place = state.first[v.name], f"state->{state.names[v.name]}"
    if not any(np.ascontiguousarray(array).tobytes()):
        return f"    clear({place}, {v.type.bytes});"
    key, name, note = ("first", v.name), f"first.{v.name}", f"initial content, {v.type}"
    packed, bits = pack_bits(array) if v.type.numpy == np.int32 else (array, 0)
    if packed.nbytes + WORTH <= array.nbytes:
        source = constants.array(key, name, packed, f"{note}, {bits} bits each")
        return f"    unpack_bits({place}, {source}, {bits}, {v.type.size});"
    return f"    copy_bytes({place}, {constants.array(key, name, array, note)}, {v.type.bytes});"


def state_kernels(source: str) -> set[str]:
    """The kernels that `<prefix>_state.c` calls."""
    return {name for name in ("copy_bytes", "crc32_bytes", "unpack_bits") if f"{name}(" in source}


def state_source(prefix: str, state: StateLayout, constants: Constants) -> str:
    """`<prefix>_state.c`"""
    copies = [_first(state, v, constants) for v in state.fields]
    clear = CLEAR if any("clear(" in line for line in copies) else ""
    return f"""/* The state of {prefix}: initial content, save, load. Generated by insitu. */
#include "{prefix}.h"
#include "{prefix}_weights.h"

enum {{ BYTES = {state.bytes} }};

static uint32_t word_at(const uint8_t *p)
{{
    return p[0] | (uint32_t)p[1] << 8 | (uint32_t)p[2] << 16 | (uint32_t)p[3] << 24;
}}

{clear}static void put_word(uint8_t *p, uint32_t x)
{{
    for (int32_t i = 0; i < 4; i++) {{
        p[i] = (uint8_t)(x >> 8 * i);
    }}
}}

void {prefix}_init({prefix}_state *state)
{{
{chr(10).join(copies)}
}}

void {prefix}_save(const {prefix}_state *state, uint8_t *out)
{{
    copy_bytes(out + {HEADER_BYTES}, state, BYTES);
    put_word(out, {MAGIC}u);
    put_word(out + 4, {state.model}u);
    put_word(out + 8, BYTES);
    put_word(out + 12, crc32_bytes(out + {HEADER_BYTES}, BYTES));
}}

int32_t {prefix}_load({prefix}_state *state, const uint8_t *in, uint32_t bytes)
{{
    if (bytes != BYTES + {HEADER_BYTES}) {{
        return {WRONG_SIZE};
    }}
    if (word_at(in) != {MAGIC}u) {{
        return {WRONG_MAGIC};
    }}
    if (word_at(in + 4) != {state.model}u) {{
        return {WRONG_MODEL};
    }}
    if (word_at(in + 8) != BYTES || word_at(in + 12) != crc32_bytes(in + {HEADER_BYTES}, BYTES)) {{
        return {DAMAGED};
    }}
    copy_bytes(state, in + {HEADER_BYTES}, BYTES);
    return {LOADED};
}}
"""
