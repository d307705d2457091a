"""A living program as c/device/life.c sees it: `<prefix>_life.c` and `.h`, its memory, and where it is.

`Life` is what was asked for and where the flash is; `Layout` what follows from that and the program: how many samples
fit, how large a checkpoint is. Nothing is decided at run time. c/device/ has the code, store/rules.py the rules.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING

from insitu.boards import Pages
from insitu.codegen import c
from insitu.errors import BudgetError, GraphError
from insitu.graph import Graph, Value
from insitu.terminal.wording import option
from insitu.training.head import HEAD
from insitu.training.living import ENCODE, LEARN, RECALL

if TYPE_CHECKING:
    from insitu.codegen.program import Program

RULES = "device/rules.c", "device/follow.c", "device/life.c", "device/bout.c", "device/life_requests.c"
IN_FLASH, IN_RAM = ("device/store_flash.c", "device/bank.c"), ("device/store_ram.c", "device/bank_none.c")
# bytes of the structs in c/device/rules.h and life.h
RECORD, CLASS, PAST, NOW, SEGMENT, SLOT_HEAD, BANK_HEAD = 12, 60, 256, 120, 12, 16, 28
LIFE_KERNELS = ("finite_f32",)
NAME_BYTES = 31  # of a class, in UTF-8
MOST_PAGES = 16  # of a segment
LEAST_SEGMENTS = 4  # one is always empty, one is for what was dropped
MOST_RECORDS = 16_384


@dataclass(frozen=True)
class LifeClass:
    """What is known of a class before the first day: the mean of its features, and of how many samples it is."""

    number: int
    count: int
    mean: tuple[float, ...]


@dataclass(frozen=True)
class Life:
    """What a living program was asked to keep, and where."""

    model: str  # identifies the training program: states of both are the same
    store_bytes: int
    pages: Pages | None = None  # of the flash that holds samples and checkpoints; None: samples in SRAM, no checkpoints
    flash_end: int = 0  # the first address behind them
    first: tuple[LifeClass, ...] = ()  # classes that were learned elsewhere


@dataclass(frozen=True, eq=False)
class Layout:
    """The sizes and places of a living program."""

    life: Life
    latents: tuple[Value, ...]
    state_bytes: int
    classes: int
    features: int  # that the head reads; 0 without a float head

    @cached_property
    def offsets(self) -> dict[str, int]:
        """Latent -> its offset in a record."""
        found, at = {}, 0
        for v in self.latents:
            found[v.name] = at
            at += -(-v.type.bytes // 4) * 4
        return found

    @property
    def latent_bytes(self) -> int:
        return sum(-(-v.type.bytes // 4) * 4 for v in self.latents)

    @property
    def word(self) -> int:
        return self.life.pages.word if self.life.pages else 4

    @property
    def slot_bytes(self) -> int:
        """A sample in the store, with what belongs to it."""
        return _up(self.latent_bytes, self.word) + SLOT_HEAD + self.word if self.life.pages else 4 + self.latent_bytes

    @cached_property
    def segment_pages(self) -> int:
        """Pages that are erased together: as few as hold the most samples."""
        if not self.life.pages:
            return 0
        return max(range(1, MOST_PAGES + 1), key=lambda pages: (self._fitting(pages), -pages))

    def _fitting(self, pages: int) -> int:
        assert self.life.pages
        segments = self.life.store_bytes // (pages * self.life.pages.bytes)
        return (segments - 2) * self._slots(pages) if segments >= LEAST_SEGMENTS else 0

    def _slots(self, pages: int) -> int:
        assert self.life.pages
        return (pages * self.life.pages.bytes - SLOT_HEAD - self.word) // self.slot_bytes

    @property
    def segment_bytes(self) -> int:
        return self.segment_pages * self.life.pages.bytes if self.life.pages else 0

    @property
    def segment_slots(self) -> int:
        return self._slots(self.segment_pages) if self.life.pages else 0

    @property
    def segments(self) -> int:
        return self.life.store_bytes // self.segment_bytes if self.life.pages else 0

    @property
    def capacity(self) -> int:
        """How many samples fit. In SRAM there is one slot more, for a newcomer."""
        if self.life.pages:
            return min(self._fitting(self.segment_pages), MOST_RECORDS)
        return min(self.life.store_bytes // self.slot_bytes - 1, MOST_RECORDS)

    @property
    def sram_bytes(self) -> int:
        """What a life takes beside arena and state, within some words."""
        kept = RECORD * (self.capacity + 1) + (SEGMENT * self.segments if self.life.pages else 0)
        known = PAST + NOW + self.classes * (CLASS + 4 * self.features) + self.latent_bytes
        store = 0 if self.life.pages else self.slot_bytes * (self.capacity + 1) + self.state_bytes
        return kept + known + store

    @property
    def bank_bytes(self) -> int:
        """A checkpoint's place, in whole pages."""
        if not self.life.pages:
            return 0
        life = PAST + self.classes * (CLASS + 4 * self.features) + RECORD * (self.capacity + 1)
        return _up(_up(BANK_HEAD, self.word) + self.state_bytes + life, self.life.pages.bytes)

    @property
    def store_flash(self) -> int:
        return self.segments * self.segment_bytes

    @property
    def flash_bytes(self) -> int:
        """The end of the flash that the program must not reach."""
        return self.store_flash + 2 * self.bank_bytes

    @property
    def origin(self) -> int:
        return self.life.flash_end - self.flash_bytes

    def check(self) -> None:
        """Raise an error if not even a few samples fit."""
        if self.capacity < 5:
            least = LEAST_SEGMENTS * (self.life.pages.bytes if self.life.pages else 0)
            least = max(least, 8 * self.slot_bytes) if self.life.pages else 6 * self.slot_bytes
            what = f"a store of {self.life.store_bytes:,} bytes holds {max(self.capacity, 0)} samples"
            raise BudgetError(
                f"{what}; each takes {self.slot_bytes:,} bytes", hint=option(store=f"{-(-least // 1024)}K")
            )

    def to_json(self) -> dict:
        """What a client needs to know, and what reports show."""
        return {
            "capacity": self.capacity, "classes": self.classes, "features": self.features,
            "latent_bytes": self.latent_bytes, "slot_bytes": self.slot_bytes, "store_bytes": self.life.store_bytes,
            "in": "flash" if self.life.pages else "SRAM", "segments": self.segments, "bank_bytes": self.bank_bytes,
            "origin": self.origin if self.life.pages else None, "flash_bytes": self.flash_bytes,
            "page_bytes": self.life.pages.bytes if self.life.pages else 0, "word_bytes": self.word,
        }  # fmt: skip


def _up(bytes: int, unit: int) -> int:
    return -(-bytes // unit) * unit


def layout_of(program: Program) -> Layout | None:
    """The layout of a living program; None for any other."""
    if program.life is None:
        return None
    return layout_from({verb: plan.graph for verb, plan in program.plans.items()}, program.life, program.state_bytes)


def layout_from(graphs: Mapping[str, Graph], life: Life, state_bytes: int) -> Layout:
    """The same from the graphs, before anything is planned."""
    outputs, *features = graphs[RECALL].outputs
    learn = graphs[LEARN]
    count = len(learn.inputs) - 2  # then the label and the rate
    if learn.inputs[-2].name != "labels":
        raise GraphError("a program with a store learns classes", hint="the loss cross_entropy")
    width = features[0].type.size if features else 0
    return Layout(life, learn.inputs[:count], state_bytes, outputs.shape[-1], width)


def life_sources(program: Program) -> tuple[str, ...]:
    """The files under c/ that a living program has beside the protocol's."""
    if program.life is None:
        return ()
    return (*RULES, *(IN_FLASH if program.life.pages else IN_RAM))


# the files --------------------------------------------------------------------------------------


def emit_life(program: Program) -> dict[str, str]:
    """File name -> text; nothing for a program without a store."""
    layout = layout_of(program)
    if layout is None:
        return {}
    layout.check()
    prefix = program.prefix
    source = "\n".join([
        c.comment(f"The life of {prefix}: its memory, and the functions that c/device/life.c calls. "
                  "Generated by insitu."),
        "#include <stddef.h>", "", f'#include "{prefix}_life.h"', '#include "kernels.h"', "",
        *_memory(program, layout), *_functions(program, layout), *_first(layout), *_model(program, layout),
        *_calls(program, layout),
    ])  # fmt: skip
    return {f"{prefix}_life.c": source, f"{prefix}_life.h": _header(program, layout)}


def _header(program: Program, layout: Layout) -> str:
    prefix = program.prefix
    where = "flash" if layout.life.pages else "SRAM"
    body = [
        '#include "device/life.h"', f'#include "{prefix}_device.h"', "",
        c.comment(f"{layout.capacity} samples of {layout.latent_bytes} bytes in {where}"), "",
        "/* Once, first of all: the initial state, or the newest checkpoint and the samples kept so far. */",
        f"void {prefix}_life_begin(void);",
        "/* Keeps a sample; label -1: none yet. Returns its id. */",
        f"uint32_t {prefix}_observe({_samples(program)}, int32_t label);",
        "/* A label that comes later. 0; 1: no such class; 2: no such sample. */",
        f"int32_t {prefix}_label(uint32_t id, int32_t label);",
        "/* Begins a bout of learning; then call the next until it returns 0: each call is one bounded slice. */",
        "/* 0; 1: a bout is running; 2: a class in use has no sample to learn from (unless `partial`). */",
        f"int32_t {prefix}_bout(uint32_t steps, float rate, int32_t partial);",
        f"int32_t {prefix}_rehearse(void);", "",
        "extern const life_model life_here; /* for the other functions of device/life.h */",
    ]  # fmt: skip
    return "\n".join([c.comment(f"The life of {prefix}. Generated by insitu."), *c.guard(f"{prefix}_life", body)])


def _memory(program: Program, layout: Layout) -> list[str]:
    prefix, n = program.prefix, layout.classes
    fields = [
        "    life_past past;", "    life_now now;", f"    rules_class classes[{n}];",
        f"    float means[{max(n * layout.features, 1)}];",
        f"    rules_record records[{layout.capacity + 1}];",
        *([f"    life_segment segments[{layout.segments}];"] if layout.life.pages else []),
        f"    uint32_t latent[{layout.latent_bytes // 4}] __attribute__((aligned(16)));",
    ]  # fmt: skip
    lines = ["typedef struct {", *fields, f"}} {prefix}_life_struct;", "", f"{prefix}_life_struct {prefix}_life_ram;"]
    if not layout.life.pages:
        slots = (layout.capacity + 1) * layout.slot_bytes
        lines += [f"unsigned char {prefix}_life_store[{slots}] __attribute__((aligned(4)));",
                  f"{prefix}_state {prefix}_life_before;"]  # fmt: skip
    return [*lines, ""]


def _latent(program: Program, layout: Layout, v: Value, const: str = "const ") -> str:
    place = f"(unsigned char *){program.prefix}_life_ram.latent + {layout.offsets[v.name]}"
    return f"({const}{v.type.ctype} *)({place})"


def _functions(program: Program, layout: Layout) -> Iterator[str]:
    """The three functions that life.c and the protocol call, in terms of the generated ones."""
    from insitu.codegen.device import place_of

    prefix = program.prefix
    first = f"&{prefix}_device_state, {prefix}_device_arena"
    kept = [_latent(program, layout, v) for v in layout.latents]
    outs = {verb: [f"({v.type.ctype} *)({place_of(program, verb, v)})" for v in program.plans[verb].graph.outputs]
            for verb in (RECALL, LEARN)}  # fmt: skip
    yield from ["void life_encode(void)", "{", *_encoding(program, layout, _slots(program)), "}", ""]
    yield from ["void life_recall(void)", "{", _call(f"{prefix}_{RECALL}", [first, *kept, *outs[RECALL]]), "}", ""]
    yield from [
        "float life_learn(int32_t label, float rate)", "{", "    const int32_t labels[1] = {label};",
        _call(f"{prefix}_{LEARN}", [first, *kept, "labels", "rate", *outs[LEARN]]),
        f"    return *{outs[LEARN][0]};", "}", "",
    ]  # fmt: skip
    yield from _groups(program, layout)


def _groups(program: Program, layout: Layout) -> Iterator[str]:
    """The sums of the groups of the latents at hand."""
    at = 0
    yield from ("void life_groups(float *sums)", "{")
    for v in layout.latents:
        place = f"const {v.type.ctype} *const {_local(v)} = {_latent(program, layout, v)};"
        add = f"sums[({at % 16} + i) % LIFE_GROUPS] += (float){_local(v)}[i];"
        yield from (f"    {place}", f"    for (int32_t i = 0; i < {v.type.size}; i++) {{", f"        {add}", "    }")
        at += v.type.size
    yield from ("}", "")


def _local(v: Value) -> str:
    return f"of_{c.identifier(v.name)}"


def _encoding(program: Program, layout: Layout, samples: list[str]) -> list[str]:
    """From these samples to the latents at hand."""
    prefix = program.prefix
    if ENCODE in program.plans:
        given = [f"&{prefix}_device_state, {prefix}_device_arena", *samples]
        return [_call(f"{prefix}_{ENCODE}", [*given, *(_latent(program, layout, v, "") for v in layout.latents)])]
    pairs = zip(layout.latents, samples)
    return [f"    copy_bytes({_latent(program, layout, v, '')}, {x}, {v.type.bytes});" for v, x in pairs]


def sample_verb(program: Program) -> str:
    """The verb whose inputs are a sample."""
    return ENCODE if ENCODE in program.plans else "predict"


def _slots(program: Program) -> list[str]:
    """Where the protocol writes a sample."""
    verb = sample_verb(program)
    plan = program.plans[verb]
    arena = f"{program.prefix}_device_arena"
    return [f"(const {v.type.ctype} *)({arena} + {plan.offsets[v.name]})" for v in plan.graph.inputs]


def _samples(program: Program) -> str:
    values = program.plans[sample_verb(program)].graph.inputs
    return ", ".join(f"const {v.type.ctype} *in_{c.identifier(v.name)}" for v in values)


def _call(name: str, arguments: list[str]) -> str:
    return f"    {name}({', '.join(arguments)});"


def _known(layout: Layout) -> tuple[LifeClass, ...]:
    return tuple(one for one in layout.life.first if len(one.mean) == layout.features and one.number < layout.classes)


def _first(layout: Layout) -> Iterator[str]:
    """What is known of the classes before the first day."""
    if not (known := _known(layout)):
        return
    yield f"static const life_first first_classes[{len(known)}] = {{"
    yield from (f"    {{{one.number}, {one.count}}}," for one in known)
    words = [c.float_literal(x) for one in known for x in one.mean]
    yield from ("};", f"static const float first_means[{len(words)}] = {{", *c.wrap(words), "};", "")


def _model(program: Program, layout: Layout) -> list[str]:
    from insitu.codegen.device import place_of

    prefix, state = program.prefix, program.state
    assert state is not None
    outputs = program.plans[RECALL].graph.outputs
    places = [f"(const float *)({place_of(program, RECALL, v)})" for v in outputs]
    ram = f"{prefix}_life_ram"
    names = f"{prefix}_class_names" if f"{prefix}_classes.c" in program.files else "NULL"
    fields = {
        "past": f"&{ram}.past", "now": f"&{ram}.now", "classes": f"{ram}.classes", "means": f"{ram}.means",
        "records": f"{ram}.records", "latent": f"(unsigned char *){ram}.latent",
        "outputs": places[0], "features": places[1] if layout.features else "NULL",
        "state": f"(unsigned char *)&{prefix}_device_state", **_head(program), "names": names, **_given(layout),
        "state_bytes": f"{layout.state_bytes}", "model": f"{state.model}u", "latent_bytes": f"{layout.latent_bytes}",
        "latent_count": f"{sum(v.type.size for v in layout.latents)}",
        "class_count": f"{layout.classes}", "feature_count": f"{layout.features}", "capacity": f"{layout.capacity}",
        "slot_bytes": f"{layout.slot_bytes}", **_places(program, layout),
    }  # fmt: skip
    return ["const life_model life_here = {", *(f"    .{k} = {v}," for k, v in fields.items()), "};", ""]


def _given(layout: Layout) -> dict[str, str]:
    known = len(_known(layout))
    return {"first": "first_classes", "first_means": "first_means", "first_count": str(known)} if known else {}


def _head(program: Program) -> dict[str, str]:
    """The rows of a float head in the state; nothing for another one."""
    state = program.state
    assert state is not None
    found = {v.name: v for v in state.fields}
    names = {part: f"{HEAD}.{part}" for part in ("weight", "bias")}
    if any(name not in found or found[name].dtype != "f32" for name in names.values()):
        return {}
    rows = {part: f"{program.prefix}_device_state.{state.names[name]}" for part, name in names.items()}
    alone = set(program.plans["predict"].graph.state) == set(names.values())
    return {**rows, "head_alone": str(int(alone))}


def _places(program: Program, layout: Layout) -> dict[str, str]:
    """The store and the banks."""
    prefix, pages = program.prefix, layout.life.pages
    if pages is None:
        return {"slots": f"{prefix}_life_store", "before": f"(unsigned char *)&{prefix}_life_before"}
    return {
        "segments": f"{prefix}_life_ram.segments", "segment_count": f"{layout.segments}",
        "segment_slots": f"{layout.segment_slots}", "store_at": f"{layout.origin:#x}u",
        "segment_bytes": f"{layout.segment_bytes}", "bank_at": f"{layout.origin + layout.store_flash:#x}u",
        "bank_bytes": f"{layout.bank_bytes}", "page_bytes": f"{pages.bytes}", "word_bytes": f"{pages.word}",
    }  # fmt: skip


def _calls(program: Program, layout: Layout) -> list[str]:
    """The functions of the header, for a program with its own loop."""
    prefix = program.prefix
    values = program.plans[sample_verb(program)].graph.inputs
    given = [f"in_{c.identifier(v.name)}" for v in values]
    return [
        f"void {prefix}_life_begin(void)", "{", f"    {prefix}_init(&{prefix}_device_state);",
        "    life_begin(&life_here);", "}", "",
        f"uint32_t {prefix}_observe({_samples(program)}, int32_t label)", "{",
        *_encoding(program, layout, given), "    life_observe(&life_here, label);",
        f"    return {prefix}_life_ram.now.last_id;", "}", "",
        f"int32_t {prefix}_label(uint32_t id, int32_t label)", "{", "    return life_label(&life_here, id, label);",
        "}", "",
        f"int32_t {prefix}_bout(uint32_t steps, float rate, int32_t partial)", "{",
        "    return life_bout(&life_here, steps, rate, partial);", "}", "",
        f"int32_t {prefix}_rehearse(void)", "{", "    return life_slice(&life_here);", "}", "",
    ]  # fmt: skip
