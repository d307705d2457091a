"""Training from stored outputs of the frozen layers gives the bytes of training from the samples."""

import numpy as np
import pytest

pytest.importorskip("torch")

import torch

import insitu

from ..models_1d import MAKERS, sequence_net


def compiled(name: str, scheme: str, precision: str):
    """(learner, samples, labels); the network with two outputs is trained towards numbers."""
    (module, example), rng = sequence_net(name), np.random.default_rng(3)
    x, y = rng.normal(size=(6, *example[0].shape[1:])).astype(np.float32), np.arange(6) % 4
    recipe = insitu.Recipe(loss="mse") if name == "two_heads" else None
    made = insitu.compile(module, example=example, data=x, precision=precision, scheme=scheme, recipe=recipe)
    return made, x, np.eye(4, dtype=np.float32)[y] if recipe else y


CASES = [*((name, "last:2", "float") for name in MAKERS), ("two_heads", "last:2", "int8"), ("tcn", "head", "int8")]


@pytest.mark.parametrize("name, scheme, precision", CASES)
def test_a_sequence_network_learns_the_same_from_kept_outputs(name, scheme, precision):
    made, x, y = compiled(name, scheme, precision)
    first = made.device.save_state()
    kept = made.fit(x, y, epochs=2, rate=0.02)
    after = made.device.save_state()
    made.device.load_state(first)
    whole = made.fit(x, y, epochs=2, rate=0.02, cache=False)
    assert kept.cached and not whole.cached and kept.loss == whole.loss
    assert after == made.device.save_state() != first


class Attention(torch.nn.Module):
    """One block of self-attention: its linear layers have the tokens of the sequence as rows, and not the samples."""

    def __init__(self):
        super().__init__()
        self.embed, self.head = torch.nn.Conv1d(3, 8, 5, 4), torch.nn.Linear(8, 4)
        self.attend = torch.nn.MultiheadAttention(8, 2, batch_first=True)

    def forward(self, x):
        tokens = self.embed(x).transpose(1, 2)
        return self.head(self.attend(tokens, tokens, tokens)[0].mean(1))


@pytest.mark.parametrize("precision", ["int8", "float"])
def test_what_has_tokens_in_place_of_samples_is_not_kept(precision):
    """They would be taken for as many samples."""
    torch.manual_seed(0)
    x, y = np.random.default_rng(3).normal(size=(8, 3, 29)).astype(np.float32), np.arange(8) % 4
    made = insitu.compile(Attention().eval(), data=(x, y), precision=precision, scheme="last:1")
    first = made.device.save_state()
    history = made.fit(x, y, epochs=2, rate=0.02)
    assert not history.cached and made.device.save_state() != first
    made.keep()
    for sample, label in zip(x, y):
        made.observe(sample, int(label))
    assert made.rehearse(4).steps == 4
