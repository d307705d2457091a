"""What `model.compile(optimizer, loss)` of a Keras model says about training, as the fields of a recipe.

Whatever insitu cannot do in the same way is named in a note. Nothing here reads the layers (read.py), and no recipe is
made here (pipeline/recipes.py).
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from insitu.importers.keras.saved import Stored, is_file, saved_settings

BATCH = 32  # the samples per update of Keras's own fit
# name of a Keras loss, in lower case and without underscores -> the loss here
LOSSES = {
    "sparsecategoricalcrossentropy": "cross_entropy",
    "categoricalcrossentropy": "cross_entropy",
    "binarycrossentropy": "binary_cross_entropy",
    "meansquarederror": "mse",
    "mse": "mse",
}
# option of a loss -> its usual value
LOSS_OPTIONS: dict[str, Any] = {"label_smoothing": 0.0, "ignore_class": None, "axis": -1}
MEANS = ("sum_over_batch_size", "mean", "mean_with_sample_weight")  # reductions that are the same without weights
# option of any optimizer that has no counterpart -> its usual value
OTHERS: dict[str, Any] = {
    "clipvalue": None, "global_clipnorm": None, "use_ema": False, "gradient_accumulation_steps": None,
    "amsgrad": False,
}  # fmt: skip


@dataclass(frozen=True)
class Compiled:
    """The settings of a compiled model: fields of a recipe, and what could not be taken over."""

    name: str  # the optimizer, in words
    fields: dict[str, Any] = field(default_factory=dict)
    logits: bool = False  # the loss takes the outputs before a sigmoid or softmax
    notes: tuple[str, ...] = ()
    about_steps: tuple[str, ...] = ()  # those of the notes that say something of the optimizer
    every: bool = False  # no layer is frozen


def compiled(model) -> Compiled | None:
    """The settings of this model, or of a .keras file; None if it is neither, or was not compiled."""
    if is_file(model):
        return _of_file(model)
    if not type(model).__module__.startswith("keras.") and not _is_keras(model):
        return None
    optimizer, loss = getattr(model, "optimizer", None), getattr(model, "loss", None)
    if not getattr(model, "compiled", False) or optimizer is None or loss is None:
        return None
    found = _settings(optimizer, loss, getattr(getattr(model, "_compile_loss", None), "_user_loss_weights", None))
    return replace(found, every=all(layer.trainable for layer in model._flatten_layers()))


def _of_file(path) -> Compiled | None:
    found = saved_settings(path)
    optimizer, loss = (getattr(found, name, None) for name in ("optimizer", "loss"))
    if found is None or optimizer is None or loss is None:
        return None
    try:
        return replace(_settings(optimizer, loss, getattr(found, "loss_weights", None)), every=found.every)
    except (AttributeError, TypeError, ValueError, IndexError, OverflowError) as e:
        return Compiled("", notes=(f"Keras: the settings in {path} cannot be read, and are not taken over ({e})",))


def _settings(optimizer, loss, weights) -> Compiled:
    optimizer = getattr(optimizer, "inner_optimizer", optimizer)  # of a wrapper that scales the loss
    updates, words = _optimizer(optimizer)
    aim, logits, more = _loss(loss)
    steps, others = (tuple(f"Keras: {note}" for note in found) for found in (words, [*more, *_weights(weights)]))
    name = _kind(optimizer) + (f"({updates['rate']:g})" if "rate" in updates else "")
    return Compiled(name, {**updates, **aim}, logits, (*steps, *others), steps)


def _kind(given) -> str:
    """The name of the class of an optimizer, schedule or loss."""
    return given.class_name if isinstance(given, Stored) else type(given).__name__


def _weights(given) -> list[str]:
    """What is not taken over of the weights of losses; 1 is the usual one."""
    each = list(given.values()) if isinstance(given, dict) else [given] if np.isscalar(given) else list(given or ())
    return [f"loss_weights={given!r} is not taken over: every loss counts once"] if set(each) - {1, None} else []


def _is_keras(model) -> bool:
    return any(c.__module__.split(".")[0] == "keras" and c.__name__ == "Model" for c in type(model).__mro__)


# optimizers -------------------------------------------------------------------------------------


def _optimizer(optimizer) -> tuple[dict[str, Any], list[str]]:
    name = _kind(optimizer)
    take = OPTIMIZERS.get(name)
    if take is None:
        return {}, [f"the optimizer {name} is not known here: SGD, with a rate that fit finds"]
    fields, notes = take(optimizer)
    rate, words = _rate(optimizer)
    clip = {} if optimizer.clipnorm is None else {"clip": float(optimizer.clipnorm)}
    left = [f"{option}={getattr(optimizer, option)!r} of {name} is not taken over"
            for option, usual in OTHERS.items() if getattr(optimizer, option, usual) not in (usual, None)]  # fmt: skip
    return {"clip": 0.0, **fields, **clip, "rate": rate}, [*notes, *words, *left]


def _sgd(optimizer) -> tuple[dict[str, Any], list[str]]:
    momentum = float(optimizer.momentum)
    if not momentum:
        return {"optimizer": "sgd", **_decay(optimizer)}, _decay_note(optimizer)
    fields = {"optimizer": "momentum", "momentum": momentum, "nesterov": bool(optimizer.nesterov)}
    words = f"weight_decay={optimizer.weight_decay!r} together with momentum is not taken over"
    return fields, [words] if optimizer.weight_decay else []


def _adam(optimizer) -> tuple[dict[str, Any], list[str]]:
    fields = {"optimizer": "adam", "beta1": float(optimizer.beta_1), "beta2": float(optimizer.beta_2),
              "epsilon": float(optimizer.epsilon), "epsilon_early": True, **_decay(optimizer)}  # fmt: skip
    return fields, _decay_note(optimizer)


def _decay(optimizer) -> dict[str, float]:
    return {"decay": float(optimizer.weight_decay)} if optimizer.weight_decay else {}


def _decay_note(optimizer) -> list[str]:
    return ["weight_decay applies to weights, not to biases"] if optimizer.weight_decay else []


def _rate(optimizer) -> tuple[float, list[str]]:
    given, first = _schedule(optimizer)
    if given is None:
        return _as_given(optimizer.learning_rate), []
    name = _kind(given)
    return first, [f"the schedule {name} is not taken over: its first rate, {first:g}, is used throughout"]


def _as_given(rate) -> float:
    """0.02, as it was given, not 0.0199999996"""
    return float(str(np.float32(float(rate))))


def _schedule(optimizer) -> tuple[Any, float]:
    """The schedule of the rate, and the first rate; None if the rate is constant."""
    if isinstance(optimizer, Stored):
        given = optimizer.learning_rate
        if not isinstance(given, Stored):
            return None, 0.0
        first = given.settings.get("initial_learning_rate")
        return given, _as_given(given.values[0] if first is None else first)
    from insitu.importers.keras.read import keras_package

    given: Any = getattr(optimizer, "_learning_rate", None)
    if isinstance(given, keras_package().optimizers.schedules.LearningRateSchedule):
        return given, _as_given(given(0))
    return None, 0.0


OPTIMIZERS: dict[str, Callable[[Any], tuple[dict[str, Any], list[str]]]] = {
    "SGD": _sgd, "Adam": _adam, "AdamW": _adam,
}  # fmt: skip


# losses -----------------------------------------------------------------------------------------


def _loss(loss) -> tuple[dict[str, Any], bool, list[str]]:
    """The loss, whether it takes logits, and what is not taken over."""
    if isinstance(loss, list | tuple | dict):
        found = list(loss.values()) if isinstance(loss, dict) else list(loss)
        if len(found) != 1:
            return {}, False, [f"{len(found)} losses are not taken over: cross_entropy of the first output"]
        loss = found[0]
    name = loss if isinstance(loss, str) else getattr(loss, "__name__", _kind(loss))
    known = LOSSES.get(name.lower().replace("_", ""))
    if known is None:
        return {}, False, [f"the loss {name} is not known here: cross_entropy, unless a recipe says otherwise"]
    config = dict(loss.settings if isinstance(loss, Stored) else getattr(loss, "_fn_kwargs", {}))
    smoothing = float(config.pop("label_smoothing", 0.0)) if known == "cross_entropy" else 0.0
    left = [f"{option}={config[option]!r} of {name} is not taken over"
            for option, usual in LOSS_OPTIONS.items() if config.get(option, usual) != usual]  # fmt: skip
    reduction = getattr(loss, "reduction", MEANS[0])
    if reduction not in MEANS:
        left += [f"reduction={reduction!r} of {name} is not taken over: the mean over a batch, so its rate means more"]
    fields = {"loss": known, **({"smoothing": smoothing} if smoothing else {})}
    return fields, bool(config.get("from_logits", False)), left
