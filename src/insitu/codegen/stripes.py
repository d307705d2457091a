"""A loop over stripes as C: tables of what differs from stripe to stripe, and one line per call with its layer.

Stripes that differ only in the addresses of whole values are of one kind. One table gives the kind of each stripe,
others give a call's arguments for each kind. The planner has decided which rows are computed when.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from insitu.codegen import c
from insitu.graph.call import Scratch, Table
from insitu.graph.graph import Value
from insitu.graph.loops import Loop, Move, Piece, Turn, Window, away, row_bytes, scratch_places

COPY, SLIDE = "copy_bytes", "slide_bytes"
STRIPE, KIND = "t", "k"  # the two indices of the tables
WIDTHS = ((1 << 7, "int8_t"), (1 << 15, "int16_t"), (1 << 31, "int32_t"))


class Stripes:
    """Writes one loop. `place(value)` is the start of a buffer, `argument(arg, layer)` any other argument; the loop's
    own bytes begin at byte `start` of the arena."""

    def __init__(self, loop: Loop, place: Callable[[Value], str], argument: Callable, start: int, names: c.Names):
        self.loop, self.place, self.argument, self.start, self.names = loop, place, argument, start, names
        self.whole = {v.value.name for v in self._pieces()} - {room.value.name for room in loop.rooms}
        self.tables: list[str] = []  # definitions
        self._known: dict[tuple, str] = {}
        self.kinds, self.firsts = self._sorted()
        self.index = names.fresh("stripe_kind") if len(self.firsts) > 1 else ""
        self.calls = [line for i in range(bool(loop.source), len(loop.nodes)) for line in self._node(i)]

    def lines(self) -> list[str]:
        """The loop itself."""
        head = [f"    for (int32_t {STRIPE} = 0; {STRIPE} < {len(self.loop.stripes)}; {STRIPE}++) {{"]
        return [*head, *self._kind(), *(f"    {line}" for line in self.calls), "    }"]

    def arriving(self, check: str = "") -> list[str]:
        """The loop over stripes, from the position in `now` as far as the `bytes` bytes at `from` allow.

        If `check` names a kernel that checks floats, rows that it refuses are recorded.
        """
        turns = [stripe[0] for stripe in self.loop.stripes]
        name, row = self.loop.nodes[0].name, row_bytes(self.loop.nodes[0].output)
        ends, starts = [0], []  # bytes that have arrived before each stripe; the first byte in the buffer
        for turn in turns:
            made = turn.window and turn.window.made
            ends.append(ends[-1] + (made.count * row if made else 0))
            starts.append((made.first - made.slot) * row if made else ends[-1])
        due = self._table(f"{name}.due", list(map(str, ends)), "")
        start = self._table(f"{name}.start", list(map(str, starts)), "")
        buffer = self.place(self.loop.nodes[0].output)
        place = f"(unsigned char *){buffer} + (now->bytes - {start}[{STRIPE}])"
        new = f"{buffer} + ({due}[{STRIPE}] - {start}[{STRIPE}]) / 4, ({due}[{STRIPE} + 1] - {due}[{STRIPE}]) / 4"
        return [
            f"    for (; now->stripe < {len(turns)}; now->stripe++) {{",
            f"        const int32_t {STRIPE} = now->stripe;",
            *self._kind(),
            f"        const int32_t due = {due}[{STRIPE} + 1] - now->bytes, n = bytes < due ? bytes : due;",
            "        if (n == 0 && due > 0) {", "            break;", "        }",
            f"    {c.call(COPY, [place, 'from', 'n'], name)}",
            "        from += n;", "        bytes -= n;", "        now->bytes += n;",
            "        if (n < due) {", "            break;", "        }",
            *([f"        now->broken |= !{check}({new});"] if check else []),
            *(f"    {line}" for line in self.calls), "    }",
        ]  # fmt: skip

    def _kind(self) -> list[str]:
        """The line that looks up the kind of this stripe, if there are several kinds."""
        if not self.index:
            return []
        ctype = "uint8_t" if len(self.firsts) < 256 else "int16_t"
        self.tables.insert(0, _table(ctype, self.index, map(str, self.kinds)))
        return [f"        const int32_t {KIND} = {self.index}[{STRIPE}];"]

    # what a stripe is -------------------------------------------------------------------------

    def _sorted(self) -> tuple[list[int], list[int]]:
        """The kind of each stripe, and the first stripe of each kind."""
        known: dict[tuple, int] = {}
        kinds, firsts = [], []
        for t, stripe in enumerate(self.loop.stripes):
            key = tuple(part for turn in stripe for part in (turn.moves, self._key(turn.window)))
            if key not in known:
                known[key] = len(known)
                firsts.append(t)
            kinds.append(known[key])
        return kinds, firsts

    def _key(self, window: Window | None):
        if window is None:
            return None
        pieces = (window.made, *window.read)
        slots = tuple(p.count if p.value.name in self.whole else (p.count, p.slot) for p in pieces)
        return id(window.call), slots

    def _pieces(self) -> list[Piece]:
        return [p for w in self.loop.windows for p in (w.made, *w.read)]

    # what a node does -------------------------------------------------------------------------

    def _node(self, i: int) -> list[str]:
        name = self.loop.nodes[i].name
        turns = [self.loop.stripes[t][i] for t in self.firsts]
        moves = [self._move(v, [_move(v, turn) for turn in turns]) for v in self.loop.moved[i]]
        rows = [turn.back for turn in turns]
        back = [self._back(self.loop.nodes[i].output, rows)] if any(rows) else []
        return [*back, self._call(i, name, [turn.window for turn in turns]), *moves]

    def _move(self, value: Value, moves: list[Move | None]) -> str:
        away = any(m and m.away for m in moves)
        return self._away(value, moves) if away else self._slide(value, moves)

    def _away(self, value: Value, moves: list[Move | None]) -> str:
        """The call that saves rows elsewhere."""
        name, row = value.name, row_bytes(value) // value.type.numpy.itemsize
        line = self.place(value)
        source = [(f"{line} + {m.slot * row}" if m.slot else line) if m else None for m in moves]
        count = [str(m.count * row_bytes(value)) if m else "0" for m in moves]
        args = [self._kept(value), self._pick(f"{name}.from", source), self._pick(f"{name}.kept", count)]
        return c.call(COPY, args, f"{name}: rows kept")

    def _back(self, value: Value, rows: list[int]) -> str:
        count = self._pick(f"{value.name}.back", [str(n * row_bytes(value)) for n in rows])
        return c.call(COPY, [self.place(value), self._kept(value), count], f"{value.name}: rows kept")

    def _kept(self, value: Value) -> str:
        return f"arena + {self.start + self.loop.places[0, away(value.name)]}"

    def _slide(self, value: Value, moves: list[Move | None]) -> str:
        """The call that moves rows to the front; zero bytes in a kind of stripe that moves none."""
        name, row = value.name, row_bytes(value)
        by = [str(m.slot * row) if m else None for m in moves]
        count = [str(m.count * row) if m else "0" for m in moves]
        args = [self.place(value), self._pick(f"{name}.by", by), self._pick(f"{name}.kept", count)]
        return c.call(SLIDE, args, f"{name}: rows kept")

    def _call(self, i: int, name: str, windows: list[Window | None]) -> str:
        calls = [w and self._arguments(i, w, name) for w in windows]
        columns = zip(*(args for args in calls if args))
        some = next(w for w in windows if w)
        shown = []
        for j, column in enumerate(columns):
            texts = iter(column)
            wanted = [next(texts) if args else None for args in calls]
            shown.append(self._pick(f"{name}.{_what(some.call.args[j])}", wanted, _ctype(some.call.args[j])))
        line = c.call(some.call.function, shown, name)
        if all(windows):
            return line
        made = [str(w.made.count) if w else "0" for w in windows]
        return f"    if ({self._pick(f'{name}.rows', made)}) {line.lstrip()}"

    def _arguments(self, i: int, window: Window, name: str) -> list[str]:
        pieces = {p.value.name: p for p in (window.made, *window.read)}
        free = iter(scratch_places(window.call, self.start + self.loop.places.get((0, i), 0)))
        texts = []
        for arg in window.call.args:
            if isinstance(arg, Value) and arg.name in pieces:
                texts.append(self._rows(i, pieces[arg.name]))
            elif isinstance(arg, Scratch):
                texts.append(f"arena + {next(free)}")
            else:
                texts.append(self.argument(arg, name))
        return texts

    def _rows(self, i: int, piece: Piece) -> str:
        """A pointer to rows of a value."""
        start, row = self.place(piece.value), row_bytes(piece.value) // piece.value.type.numpy.itemsize
        if piece.value.name not in self.whole:
            return f"{start} + {piece.slot * row}" if piece.slot else start
        turns = [stripe[i].window for stripe in self.loop.stripes]
        slots = [next((p.slot for p in (w.made, *w.read) if p.value == piece.value), 0) if w else 0 for w in turns]
        at = self._table(f"{piece.value.name}.at", [str(s * row) for s in slots], "")
        return f"{start} + {at}[{STRIPE}]"

    # what differs -----------------------------------------------------------------------------

    def _pick(self, name: str, texts: Sequence[str | None], ctype: str = "") -> str:
        """The text itself if all kinds agree, else a table by kind; None is a kind that does not use it."""
        given = [t for t in texts if t is not None]
        if len(set(given)) == 1:
            return given[0]
        start = given[0].partition(" + ")[0]
        if all(t.partition(" + ")[0] == start and not t.startswith("&") for t in given) and not ctype:
            offsets = [(t or start).partition(" + ")[2] or "0" for t in texts]
            return f"{start} + {self._table(name, offsets, '')}[{KIND}]"
        return f"{self._table(name, [t or 'NULL' if ctype else t or '0' for t in texts], ctype)}[{KIND}]"

    def _table(self, name: str, texts: list[str], ctype: str) -> str:
        key = (ctype, *texts)
        if key not in self._known:
            self._known[key] = self.names.fresh(c.identifier(name))
            self.tables.append(_table(ctype or _narrow(texts), self._known[key], texts))
        return self._known[key]


def _move(value: Value, turn: Turn) -> Move | None:
    return next((m for m in turn.moves if m.value == value), None)


def _what(arg) -> str:
    """The name of an argument, as part of the name of its table."""
    struct = getattr(arg, "struct", None)
    return struct.split("_")[-1] if struct else "at" if isinstance(arg, Value) else "n"


def _ctype(arg) -> str:
    """The C type of a pointer to a struct or a table; '' for numbers and places."""
    struct = getattr(arg, "struct", None) or (c.ctype(arg.array) if isinstance(arg, Table) else None)
    return f"{struct} *const" if struct else ""


def _narrow(texts: list[str]) -> str:
    most = max(abs(int(t)) for t in texts)
    return next(ctype for limit, ctype in WIDTHS if most < limit)


def _table(ctype: str, name: str, words) -> str:
    words = list(words)
    line = f"static const {ctype} {name}[{len(words)}] = {{{', '.join(words)}}};"
    if len(line) <= c.WIDTH:
        return line
    return "\n".join([f"static const {ctype} {name}[{len(words)}] = {{", *c.wrap(words), "};"])
