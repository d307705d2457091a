"""What a training step updates: one line per layer.

    blocks.9.pointwise1    bias    weight 1/4
    blocks.9.depthwise     bias
    blocks.9.pointwise2    bias    weight 0,3,17     (channel 5 alone: weight 5,)
    encoder.0.query        rank 4                    (a product of two small factors beside the frozen weight)

A scheme is `head` (only the classifier), `bias:22` (the biases of the last 22 layers), `last:6` (weights and
biases of the last six), `full`, `ladder:40` (the parts that bring most per byte: ladder.py), `lora:4` (factors of rank
4 beside every linear layer and 1x1 convolution: low_rank.py), the name of a published scheme (`mcunet-5fps/99kb`), or a
file of such lines, as text or JSON; or several of these with a + between them, of which one is chosen at run time. The
head is always trained. A share of a weight is a share of its input channels; `choose_channels` takes those with the
largest weights, those with the best scores, or the first ones.
"""

from __future__ import annotations

import json
import re
from dataclasses import replace
from fractions import Fraction
from pathlib import Path

import numpy as np

from insitu.errors import SchemeError
from insitu.schemes.ladder import climb, everything, rungs
from insitu.schemes.layers import Layer
from insitu.schemes.low_rank import KIND as LOW_RANK
from insitu.schemes.low_rank import check_rank, with_factors
from insitu.schemes.published import PUBLISHED
from insitu.schemes.update import AUTO, Scheme, Update, share_of
from insitu.terminal.wording import option

__all__ = ["Scheme", "Update", "choose_channels", "fit", "parse_scheme", "read_scheme"]

MOST_RANK = 1_000_000
MOST_NAME = 200  # characters
CHOSEN_ALONE = ("auto", "auto:ladder", "auto:measured")  # by whoever compiles: they are no scheme yet


def read_scheme(text: str, layers: list[Layer]) -> Scheme:
    """The scheme with this name or in this file, for these layers (in forward order, without the head)."""
    if not isinstance(text, str):
        raise SchemeError(f"a scheme is text, not {text!r:.60}", hint=f"{option(scheme='full')}, or a file's name")
    if text in CHOSEN_ALONE:
        hint = f"{option(scheme=text)} says which rung fits; then {option(scheme='head+ladder:N')}"
        raise SchemeError(f"{text} is chosen alone, not as one of several", hint=hint)
    if text.startswith(AUTO):
        return replace(read_scheme(text.removeprefix(AUTO), layers), name=text)
    if "+" in text and not Path(text).is_file():
        return _together(text, [read_scheme(part, layers) for part in text.split("+")], layers)
    kind, _, number = text.partition(":")
    if text in PUBLISHED:
        return _published(text, layers)
    if kind == "ladder":
        return climb(layers, _rung(text, number, layers))
    if kind == LOW_RANK:
        return Scheme(text, tuple(with_factors(text, layers)))
    if kind in WORDS:
        return Scheme(text, tuple(WORDS[kind](layers, _count(text, number, kind, layers))))
    if Path(text).is_file():
        return fit(parse_scheme(Path(text).read_text(), Path(text).name), layers)
    words = [*CHOSEN_ALONE, "head", "full", "bias:N", "last:N", "ladder:N", "lora:RANK", "a file"]
    raise SchemeError(f"unknown scheme {text!r}", hint=f"{', '.join(words)}, or one of: {', '.join(PUBLISHED)}")


def _together(text: str, found: list[Scheme], layers: list[Layer]) -> Scheme:
    """Several schemes in one program: the largest must contain the others."""
    most = max(found, key=lambda scheme: sum(1 + u.share for u in scheme.updates))
    lower = tuple(scheme for scheme in found if scheme is not most)
    for low in lower:
        wrong = next((u for u in low.updates if not _contained(u, most)), None)
        if wrong:
            what = f"{low.name} trains {' '.join(str(wrong).split())}, which {most.name} does not train in the same way"
            raise SchemeError(what, where=text, hint=_way_together(text, low, most, layers))
    return replace(most, name=text, lower=lower)


def _way_together(text: str, low: Scheme, most: Scheme, layers: list[Layer]) -> str:
    """Of rungs that have other shares than the largest: the highest one below that it does contain."""
    if re.fullmatch(r"ladder:[0-9]+", low.name):
        steps = rungs(layers)
        for number in range(int(low.name.partition(":")[2]) - 1, 0, -1):
            if all(_contained(u, most) for u in climb(layers, number, steps).updates):
                others = [f"ladder:{number}" if part == low.name else part for part in text.split("+")]
                return option(scheme="+".join(dict.fromkeys(others)))
    return "the largest scheme must contain the others; a share of a weight must be the same in all of them"


def _contained(u: Update, most: Scheme) -> bool:
    other = next((o for o in most.updates if o.layer == u.layer), None)
    if other is None or u.bias > other.bias or u.rank not in (0, other.rank):
        return False
    return not (u.share or u.channels) or (u.share, u.channels) == (other.share, other.channels)


def _count(text: str, number: str, kind: str, layers: list[Layer]) -> int:
    if kind in ("head", "full"):
        if number:
            raise SchemeError(f"{kind} takes no number", where=text)
        return len(layers)
    if not re.fullmatch(r"0*[1-9][0-9]{0,8}", number):
        raise SchemeError("the number of layers is missing", where=text, hint=f"{kind}:6")
    if int(number) > len(layers):
        raise SchemeError(f"the model has {_layers(layers)} before its head", where=text, hint=_most(kind, layers))
    return int(number)


def _rung(text: str, number: str, layers: list[Layer]) -> int:
    last = len(rungs(layers)) - 1
    if not re.fullmatch(r"[0-9]{1,9}", number):
        raise SchemeError("the number of the rung is missing", where=text, hint=f"ladder:{last // 2}")
    if int(number) > last:
        raise SchemeError(f"the ladder of this model has {last} rungs", where=text, hint=f"ladder:{last}")
    return int(number)


def _layers(layers: list[Layer]) -> str:
    return "no layer" if not layers else "only 1 layer" if len(layers) == 1 else f"only {len(layers)} layers"


def _most(kind: str, layers: list[Layer]) -> str:
    """The scheme that trains as much as there is."""
    all_of_them = f"   or   {option(scheme='full')}" if kind == "last" else ""
    return f"{option(scheme=f'{kind}:{len(layers)}')}{all_of_them}" if layers else option(scheme="head")


WORDS = {
    "head": lambda layers, n: [],
    "full": lambda layers, n: everything(layers),
    "last": lambda layers, n: [Update(layer.name, True, Fraction(1)) for layer in layers[-n:]],
    "bias": lambda layers, n: [Update(layer.name, True) for layer in layers[-n:]],
}


def _published(name: str, layers: list[Layer]) -> Scheme:
    biases, indices, shares = PUBLISHED[name]
    if max(biases, indices[-1] + 1) > len(layers):
        raise SchemeError(f"is for a larger model: this one has {len(layers)} layers", where=name)
    first = len(layers) - biases
    weights = dict(zip(indices, shares))
    rows = []
    for i, layer in enumerate(layers):
        share = Fraction(weights.get(i, 0)).limit_denominator(64)
        if i >= first or share:
            rows.append(Update(layer.name, i >= first, share))
    return fit(Scheme(name, tuple(rows)), layers)


def parse_scheme(text: str, name: str) -> Scheme:
    if text.lstrip().startswith("{"):
        return _parse_json(text, name)
    rows = []
    for number, line in enumerate(text.splitlines(), 1):
        line = line.partition("#")[0].strip()
        if line:
            rows.append(_parse_line(line, f"{name}, line {number}"))
    return Scheme(name, tuple(rows))


def _parse_line(line: str, where: str) -> Update:
    m = re.fullmatch(r"(\S+)(\s+bias)?(?:\s+weight\s+(\S+)|\s+rank\s+([0-9]{1,6}))?", line)
    if not m:
        hint = "LAYER [bias] [weight 1/4 | weight 0,3,17 | rank 4]"
        raise SchemeError(f"cannot read {line!r}", where=where, hint=hint)
    return _update(m[1], bool(m[2]), m[3] or "0", int(m[4] or 0), where)


def _parse_json(text: str, name: str) -> Scheme:
    try:
        data = json.loads(text)
        rows = []
        for i, row in enumerate(data["updates"], 1):
            weight = ",".join(map(str, row.get("channels") or ())) + (
                "," if len(row.get("channels") or ()) == 1 else ""
            )
            where, bias = f"{name}, row {i}", bool(row.get("bias", True))
            if not isinstance(row["layer"], str):
                raise ValueError(f"the layer of row {i} is {row['layer']!r:.60}, not a name")
            rows.append(_update(row["layer"], bias, weight or str(row.get("share", 0)), row.get("rank", 0), where))
        lower = tuple(_parse_json(json.dumps(low), name) for low in data.get("lower", ()))
        return Scheme(_name(data.get("name", name)), tuple(rows), lower)
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError) as e:
        raise SchemeError(f"is not a scheme: {e}", where=name) from e


def _name(name: object) -> str:
    """The name in a file: terminals and reports show it, so it must be one line of text."""
    if not isinstance(name, str) or not name.isprintable() or len(name) > MOST_NAME:
        raise ValueError(f"its name is {name!r:.60}, not a line of at most {MOST_NAME} characters")
    return name


def _update(layer: str, bias: bool, weight: str, rank: int, where: str) -> Update:
    if type(rank) is not int or not 0 <= rank < MOST_RANK:
        raise SchemeError(f"a rank must be an integer >= 0, not {rank!r:.40}", where=where)
    try:
        if "," in weight:
            return Update(layer, bias, Fraction(0), tuple(int(c) for c in weight.split(",") if c), rank)
        share = share_of(weight)
    except (ValueError, ZeroDivisionError):
        raise SchemeError(f"weight must be a share or a list of channels, not {weight[:40]!r}", where=where) from None
    if not 0 <= share <= 1:
        raise SchemeError(f"a share must be between 0 and 1, not {weight}", where=where)
    return Update(layer, bias, share, rank=rank)


def fit(scheme: Scheme, layers: list[Layer]) -> Scheme:
    """The scheme, checked: these layers must allow every line of it."""
    by_name = {layer.name: layer for layer in layers}
    seen = set()
    for number, u in enumerate(scheme.updates, 1):
        where = f"scheme {scheme.name}, row {number} ({u.layer})"
        layer = by_name.get(u.layer)
        if layer is None:
            raise SchemeError("the model has no such layer", where=where, hint=", ".join(list(by_name)[-8:]))
        if u.layer in seen:
            raise SchemeError("the layer is listed twice", where=where)
        seen.add(u.layer)
        _fit_channels(u, layer, where)
        if u.rank:
            check_rank(u, layer, where)
    return scheme


def _fit_channels(u: Update, layer: Layer, where: str) -> None:
    partial = u.channels or 0 < u.share < 1
    if partial and layer.channels is None:
        raise SchemeError(
            f"only the whole weight of a {layer.node.op.name} can be trained", where=where, hint="weight 1"
        )
    if u.channels and (
        len(set(u.channels)) < len(u.channels) or not all(0 <= c < (layer.channels or 0) for c in u.channels)
    ):
        raise SchemeError(f"channels must be distinct and below {layer.channels}", where=where)


def choose_channels(u: Update, weight: np.ndarray, how: str = "magnitude", scores=None) -> tuple[int, ...]:
    """The input channels to train, in ascending order; () if all are trained."""
    total = weight.shape[-1]
    if u.channels:
        return tuple(sorted(u.channels)) if len(u.channels) < total else ()
    count = max(1, round(total * u.share))
    if count >= total:
        return ()
    if how == "first":
        return tuple(range(count))
    if how == "score" and scores is None:
        raise SchemeError("choosing channels by score needs scores", where=u.layer)
    rank = np.asarray(scores) if how == "score" else np.abs(weight.astype(np.float64)).reshape(-1, total).sum(0)
    best = np.argsort(-rank, kind="stable")[:count]
    return tuple(sorted(int(c) for c in best))
