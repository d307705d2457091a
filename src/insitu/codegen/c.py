"""C text from Python values: small pure functions and nothing else."""

from __future__ import annotations

import re
from collections.abc import Iterable

import numpy as np

KEYWORDS = frozenset(
    "auto break case char const continue default do double else enum extern float for goto if inline int long "
    "register restrict return short signed sizeof static struct switch typedef union unsigned void volatile while "
    "main asm arena".split()
)
# structs in the kernels' headers: no table of a program may have their names
TYPES = frozenset(
    "adam_options block_gradient block_multiplier box_shape channel_place conv2d_shape fours_task integer_update "
    "linear_shape matmul_shape matrix_end matrix_run matrix_shape pair_shape product_quant reduce_shape requant "
    "sound_bands sound_frames sound_past sound_ratio sum_litert_quant sum_quant tap tap_range tap_row "
    "tile_outputs tile_ready weight_scales".split()
)
CTYPES = {
    "float32": "float", "float64": "double", "int8": "int8_t", "uint8": "uint8_t", "int16": "int16_t",
    "int32": "int32_t", "int64": "int64_t", "bool": "uint8_t", "uint16": "uint16_t", "uint32": "uint32_t",
}  # fmt: skip
WIDTH = 110
ALIGN_FROM = 1024  # bytes: constants of this size or more are aligned for vectors, see c/isa/align.h
S8_WORDS = tuple(map(str, (*range(128), *range(-128, 0))))  # by the byte that an int8 is
READABLE = 256  # elements: people may read smaller arrays, so only those get the fewest digits


def identifier(name: str) -> str:
    """A legal C name that keeps the model's own words: `features.0.conv` -> `features_0_conv`."""
    word = re.sub(r"_+", "_", re.sub(r"\W", "_", name)).strip("_") or "v"
    return f"v{word}" if word[0].isdigit() or word in KEYWORDS else word


class Names:
    """Hands out C names, each only once: a model's `a.b` and `a_b` are two different things."""

    def __init__(self, *taken: str):
        self._taken = set(taken)

    def fresh(self, word: str) -> str:
        found, n = word, 1
        while found in self._taken:
            n += 1
            found = f"{word}_{n}"
        self._taken.add(found)
        return found


def macro(name: str) -> str:
    """An upper-case name for a tensor, different from names that C's headers or ours define."""
    word = identifier(name).upper()
    return f"T_{word}" if re.fullmatch(r"NULL|EOF|TRUE|FALSE|(INT|UINT|SIZE|PTRDIFF|INSITU|NET)_?.*", word) else word


def comment(text: str) -> str:
    """A one-line comment. Only harmless characters are kept: a name from a model file cannot end the comment."""
    return "/* " + re.sub(r"[^A-Za-z0-9 _.,:;=+()\[\]<>%@&`'/-]", "_", text) + " */"


def literal(x) -> str:
    if isinstance(x, bool | np.bool_):
        return "1" if x else "0"
    if isinstance(x, float | np.floating):
        return float_literal(float(x))
    return int_literal(int(x))


def int_literal(x: int) -> str:
    if x == -(1 << 31):
        return "(-2147483647 - 1)"  # -2147483648 is a negated long in C
    return str(x) if -(1 << 31) < x < 1 << 31 else f"{x}LL"


def float_literal(x: float) -> str:
    """The shortest decimal that reads back as the same float32."""
    if np.isnan(x):
        return "(0.0f / 0.0f)"
    if np.isinf(x):
        return "(1.0f / 0.0f)" if x > 0 else "(-1.0f / 0.0f)"
    text = np.format_float_scientific(np.float32(x), unique=True, trim="-") if x else ("-0" if np.signbit(x) else "0")
    mantissa, _, exponent = text.partition("e")
    exponent = f"e{int(exponent)}" if exponent and int(exponent) else ""
    return f"{mantissa}{'' if '.' in mantissa else '.0'}{exponent}f"


def string(text: str) -> str:
    """A string literal of UTF-8 bytes; whatever is not a plain letter is escaped in octal, which cannot run on."""
    return '"' + "".join(chr(b) if _plain(b) else f"\\{b:03o}" for b in text.encode()) + '"'


def _plain(byte: int) -> bool:
    return 32 <= byte < 127 and chr(byte) not in '"\\?'


def array(name: str, data: np.ndarray, note: str = "") -> str:
    """`const int8_t w[27] = {...};` wrapped at WIDTH."""
    flat = np.ascontiguousarray(data).reshape(-1)
    aligned = "INSITU_ALIGNED " if flat.nbytes >= ALIGN_FROM else ""
    head = f"{aligned}const {ctype(flat)} {name}[{max(flat.size, 1)}] = {{"
    tail = f"}};{'  ' + comment(note) if note else ''}"
    words = _words(flat)
    if len(head) + sum(map(len, words[:24])) + 2 * len(words) < WIDTH and len(words) <= 16:
        return f"{head}{', '.join(words)}{tail}"
    return "\n".join([head, *wrap(words), tail])


def _words(flat: np.ndarray) -> list[str]:
    if flat.dtype.kind == "f":
        return _many_floats(flat) if flat.size > READABLE else [float_literal(x) for x in flat.tolist()]
    if flat.dtype == np.int8:  # most constants: a string for each word would take longer
        return [S8_WORDS[byte] for byte in flat.tobytes()]
    if flat.dtype.itemsize <= 2:
        return list(map(str, flat.astype(int).tolist()))
    return [int_literal(x) for x in flat.astype(np.int64).tolist()]


def _many_floats(flat: np.ndarray) -> list[str]:
    """Nine digits always read back as the same float32, and take an eighth of the time that the fewest digits take."""
    words = [f"{x:.9g}" for x in flat.astype(np.float32).tolist()]
    words = [f"{w}f" if "." in w or "e" in w else f"{w}.0f" for w in words]
    for i in np.flatnonzero(~np.isfinite(flat)):
        words[i] = float_literal(float(flat[i]))
    return words


def wrap(words: Iterable[str]) -> list[str]:
    """Words with commas between them, in lines of at most WIDTH; no word has a comma of its own."""
    text, start, lines = ", ".join([*words, ""]), 0, []
    while start < len(text):
        end = text.rfind(", ", start, start + WIDTH - 4)
        end = text.index(", ", start) if end < 0 else end  # a word longer than a line
        lines.append(f"    {text[start:end]},")
        start = end + 2
    return [*lines[:-1], lines[-1][:-1]] if lines else []


def ctype(array: np.ndarray) -> str:
    return CTYPES[array.dtype.name]


def initialiser(fields: dict[str, str]) -> str:
    """`{.n = 1, .h = 32}`"""
    return "{" + ", ".join(f".{k} = {v}" for k, v in fields.items()) + "}"


def field(kind: str, name: str, size: int, note: str) -> str:
    return f"{f'    {kind} {name}[{size}];':<60} {comment(note)}"


def guard(name: str, body: list[str]) -> list[str]:
    """An include guard around these lines."""
    word = f"INSITU_{name.upper()}_H"
    return [f"#ifndef {word}", f"#define {word}", "", *body, "", "#endif", ""]


def call(function: str, args: list[str], note: str = "") -> str:
    line = f"    {function}({', '.join(args)});"
    return f"{line:<90} {comment(note)}" if note else line


def define(name: str, text: str, note: str = "") -> str:
    line = f"#define {name:<24} {text}"
    return f"{line:<72} {comment(note)}" if note else line
