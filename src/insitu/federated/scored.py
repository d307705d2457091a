"""Is an evaluation fit to be averaged and shown? Decided before any strategy sees it.

Flower's strategies stop the whole run if one device answers with other names than the rest, or with a list. What passes
here is written anew with the names that everybody has.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass

from flwr.app import Message, MetricRecord, RecordDict

from insitu.errors import DataError
from insitu.federated.best import Verdict, verdict_in
from insitu.federated.member import KEPT
from insitu.federated.noted import said
from insitu.federated.own import ALONE, FLEET

WEIGHT = "num-examples"  # the weight that Flower's strategies use
SEEN, UNTESTED = "seen", "untested"  # on samples that were learned from; without any samples
MOST = {"accuracy": 1.0, "error": 1e30}  # of a score; none is below 0


@dataclass(frozen=True)
class Scored:
    """An evaluation that passed. There is no score without samples to test on."""

    node: int
    score: float | None
    samples: int
    kept: int  # which model the device keeps (own.py)
    seen: bool
    verdict: Verdict | None = None


def checked_score(message: Message, measure: str, most_samples: int) -> Scored:
    """What a device says about a model; a DataError that says why it cannot be used."""
    if message.has_error():
        raise DataError(f"the device reports: {said(message.error.reason)}")
    records = list(message.content.metric_records.values())
    if len(records) != 1:
        raise DataError(f"has {len(records)} records, not one", where="evaluation")
    node, untested = message.metadata.src_node_id, bool(records[0].get(UNTESTED, 0))
    samples = _number(records[0], WEIGHT, 1, most_samples)
    score = None if untested else _number(records[0], measure, 0, MOST[measure])
    kept = int(_number({KEPT: 0, **records[0]}, KEPT, FLEET, ALONE))
    verdict = verdict_in(records[0], most_samples)
    return Scored(node, score, int(samples), kept, bool(records[0].get(SEEN, 0)), verdict)


def _number(record: Mapping[str, object], name: str, least: float, most: float) -> float:
    value = record.get(name)
    if not isinstance(value, int | float) or not math.isfinite(value) or not least <= value <= most:
        raise DataError(f"{name} is {said(value)}, not a number from {least:g} to {most:g}", where="evaluation")
    return value


def as_flower(message: Message, found: Scored, measure: str, weight: int) -> Message:
    """The same message as Flower's strategies take it."""
    record = MetricRecord({measure: float(found.score or 0.0), WEIGHT: weight})
    message.content = RecordDict({"metrics": record})
    return message
