"""The constants of a program: arrays and structs in flash, each stored only once.

Their arrays can be written as C, or as the bytes they are (embedded.py).
"""

from __future__ import annotations

import numpy as np

from insitu.codegen import c
from insitu.codegen.scales import Derived, Layer, derive
from insitu.graph.call import Multipliers, Scales, Struct, Table

# names that a program defines itself: no constant may have them
# fmt: off
VERBS = ("predict", "train_step", "accumulate", "apply")
PARTS = ("begin", "rows", "bytes", "end")
FUNCTIONS = (*VERBS, *(f"{verb}_{part}" for verb in VERBS for part in PARTS),
             "init", "save", "load", "state", "rows", "device", "device_arena", "device_state")
LIVING = ("encode", "recall", "learn", "life_begin", "life_ram", "life_store", "life_before", "life_struct", "observe",
          "label", "bout", "rehearse", "erase", *(f"{verb}_{part}" for verb in ("encode", "observe") for part in PARTS))
# fmt: on


class Constants:
    """Gives every constant a C name and remembers its definition."""

    def __init__(self, prefix: str, living: bool = False):
        self.prefix = prefix
        self.names: dict[object, str] = {}  # what -> C name
        self.arrays: list[tuple[str, np.ndarray, str]] = []  # C name, data, what it is
        self.structs: list[tuple[str, str, str]] = []  # C type, C name, initialiser
        self.layers: list[Layer] = []  # layers whose multipliers are stored
        self._ways: dict[tuple, Derived | None] = {}
        self._names = c.Names(*(f"{prefix}_{word}" for word in (*FUNCTIONS, *(LIVING if living else ()))))

    @property
    def bytes(self) -> int:
        return sum(array.nbytes for _, array, _ in self.arrays)

    def array(self, key, name: str, array: np.ndarray, note: str = "") -> str:
        """The C name of an array; the same key gives the same name."""
        if key not in self.names:
            self.names[key] = self._fresh(name)
            self.arrays.append((self.names[key], np.ascontiguousarray(array), note))
        return self.names[key]

    def table(self, table: Table, name: str) -> str:
        """The C name of a table. Tables with equal content share one; a table that follows from others is null."""
        if self.derived(table):
            return "NULL"
        array = np.asarray(table.array)
        return self.array(("table", array.dtype.str, array.tobytes()), name, array)

    def struct(self, arg: Struct, layer: str) -> str:
        fields = {k: self._field(v, f"{layer}.{k}") for k, v in arg.fields.items()}
        for value in arg.fields.values():
            fields |= self._source_fields(value, layer)
        self._learn(arg, fields)
        return self._struct(arg.struct, fields, layer)

    def _struct(self, kind: str, fields: dict[str, str], layer: str) -> str:
        key = ("struct", kind, tuple(fields.items()))
        if key not in self.names:
            self.names[key] = self._fresh(f"{layer}.{kind.split('_')[-1]}")
            self.structs.append((kind, self.names[key], c.initialiser(fields)))
        return f"&{self.names[key]}"

    # tables that follow from others -------------------------------------------------------------

    def _learn(self, arg: Struct, fields: dict[str, str]) -> None:
        """Remember multipliers that are stored: scales may follow from them."""
        m, shift = arg.fields.get("m"), arg.fields.get("shift")
        if isinstance(m, Multipliers) and isinstance(shift, Table):
            self.layers.append(Layer(fields["m"], fields["shift"], m, shift.array))

    def derived(self, table: Table) -> Derived | None:
        """How a table follows from stored multipliers; decided once, on first use."""
        if not isinstance(table, Scales):
            return None
        key = (type(table), *(np.asarray(part).tobytes() for part in vars(table).values()))
        if key not in self._ways:
            self._ways[key] = derive(table, self.layers)
        return self._ways[key]

    def source_of(self, scales: Scales, layer: str) -> str:
        """A pointer to the source of scales; null if they are a table."""
        way = self.derived(scales)
        return self._struct("weight_scales", way.layer.fields(), layer) if way else "NULL"

    def _source_fields(self, value, layer: str) -> dict[str, str]:
        """The fields of a struct that replace a missing table."""
        way = self.derived(value) if isinstance(value, Scales) else None
        if way is None:
            return {}
        return {"scales": self.source_of(value, layer), "over": c.literal(way.over), "rest": c.literal(way.rest)}

    def _field(self, value, name: str) -> str:
        if value is None:
            return "NULL"
        if isinstance(value, tuple):
            return "{" + ", ".join(self._field(v, name) for v in value) + "}"
        return self.table(value, name) if isinstance(value, Table) else c.literal(value)

    def _fresh(self, name: str) -> str:
        return self._names.fresh(f"{self.prefix}_{c.identifier(name)}")

    def header(self) -> str:
        arrays = [f"extern const {c.ctype(a)} {name}[{max(a.size, 1)}];" for name, a, _ in self.arrays]
        structs = [f"extern const {kind} {name};" for kind, name, _ in self.structs]
        return "\n".join([
            f"/* The constants of {self.prefix}: {self.bytes:,} bytes. Generated by insitu. */",
            *c.guard(f"{self.prefix}_weights", ['#include "kernels.h"', "", *arrays, *structs]),
        ])  # fmt: skip

    def source(self) -> str:
        return self.defined([c.array(name, a, note) for name, a, note in self.arrays])

    def defined(self, arrays: list[str]) -> str:
        """The file that defines them, with these lines for the arrays."""
        structs = [f"const {kind} {name} = {body};" for kind, name, body in self.structs]
        return "\n".join([
            f"/* The constants of {self.prefix}: {self.bytes:,} bytes. Generated by insitu. */",
            f'#include "{self.prefix}_weights.h"', "", *arrays, "", *structs, "",
        ])  # fmt: skip
