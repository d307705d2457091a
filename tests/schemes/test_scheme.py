"""Schemes: every word names what it says, errors name the line, text and JSON read back."""

import json

import numpy as np
import pytest
import torch
from torch import nn

import insitu
from insitu.importers import load
from insitu.schemes.ladder import rungs
from insitu.schemes.layers import layers
from insitu.schemes.published import PUBLISHED
from insitu.schemes.scheme import Fraction, Scheme, SchemeError, Update, choose_channels, read_scheme


@pytest.fixture(scope="module")
def net():
    """conv (3 in), conv in two groups, conv (4 in), linear: four layers."""
    module = nn.Sequential(
        nn.Conv2d(3, 4, 3), nn.ReLU(), nn.Conv2d(4, 4, 3, groups=2), nn.ReLU(), nn.Conv2d(4, 6, 1), nn.Flatten(),
        nn.Linear(24, 2),
    )  # fmt: skip
    return layers(load(module, torch.zeros(1, 3, 6, 6)))


def test_head_trains_nothing_but_the_head(net):
    assert read_scheme("head", net).updates == ()


def test_last_means_weights_and_biases_of_the_last_layers(net):
    scheme = read_scheme("last:2", net)
    assert [u.layer for u in scheme.updates] == [layer.name for layer in net[-2:]]
    assert all(u.bias and u.share == 1 for u in scheme.updates)


def test_bias_means_no_weights(net):
    scheme = read_scheme("bias:3", net)
    assert [(u.bias, u.share) for u in scheme.updates] == [(True, 0)] * 3


def test_full_means_every_layer(net):
    assert [u.layer for u in read_scheme("full", net).updates] == [layer.name for layer in net]


@pytest.mark.parametrize(
    "text, complaint",
    [
        ("last", "number of layers"),
        ("last:0", "number of layers"),
        ("last:99", "4 layers"),
        ("head:2", "no number"),
        ("everything", "unknown scheme"),
        ("mcunet-5fps/99kb", "this one has 4 layers"),
    ],
)
def test_a_scheme_that_cannot_be_says_why(net, text, complaint):
    with pytest.raises(SchemeError, match=complaint):
        read_scheme(text, net)


def lines(tmp_path, text):
    path = tmp_path / "scheme.txt"
    path.write_text(text)
    return str(path)


def test_a_file_has_a_line_a_layer(net, tmp_path):
    first, _, third, _ = (layer.name for layer in net)
    scheme = read_scheme(lines(tmp_path, f"# mine\n{first} bias weight 0,2\n\n{third}  weight 1/2  # half\n"), net)
    assert scheme.updates == (Update(first, True, Fraction(0), (0, 2)), Update(third, False, Fraction(1, 2)))


@pytest.mark.parametrize("form", ["text", "json"])
def test_what_a_scheme_prints_reads_back(net, tmp_path, form):
    first, _, third, _ = (layer.name for layer in net)
    scheme = Scheme("mine", (Update(first, True, Fraction(0), (2,)), Update(third, False, Fraction(1, 2))))
    path = tmp_path / "mine"
    path.write_text(str(scheme) if form == "text" else scheme.to_json())
    assert read_scheme(str(path), net).updates == scheme.updates


@pytest.mark.parametrize(
    "line, complaint",
    [
        ("nowhere bias", "no such layer"),
        ("{0} bias\n{0} bias", "twice"),
        ("{1} weight 1/2", "only the whole weight of a"),
        ("{0} weight 0,3", "below 3"),
        ("{0} weight 1,1", "distinct"),
        ("{0} weight 3/2", "between 0 and 1"),
        ("{0} weight 1/0", "must be a share or a list of channels"),
        ("{0} weight x", "must be a share or a list of channels"),
        ("{0} weight 1e-9999999", "must be a share or a list of channels"),  # computing it takes seconds
        ("{0} wieght 1", "cannot read"),
        ("{0} bias weight 1 more", "cannot read"),
    ],
)
def test_a_line_that_does_not_fit_is_named(net, tmp_path, line, complaint):
    text = line.format(*(layer.name for layer in net))
    with pytest.raises(SchemeError, match=complaint) as e:
        read_scheme(lines(tmp_path, text), net)
    assert f"{len(text.splitlines())}" in e.value.where  # the last line is the wrong one


NO_SCHEMES = (
    "{", "{}", '{"updates": 3}', '{"updates": [{"bias": true}]}', '{"updates": ["a"]}',
    '{"updates": [{"layer": []}]}', '{"updates": [{"layer": 7}]}', '{"lower":[' * 20000,
)  # fmt: skip


@pytest.mark.parametrize("data", NO_SCHEMES)
def test_json_that_is_no_scheme_is_an_error(net, tmp_path, data):
    with pytest.raises(SchemeError, match="not a scheme"):
        read_scheme(lines(tmp_path, data), net)


def test_channels_are_chosen_by_weight_score_or_place():
    weight = np.array([[1.0, -9.0, 2.0, 8.0], [0.0, 1.0, 3.0, 0.0]])
    half = Update("layer", share=Fraction(1, 2))
    assert choose_channels(half, weight) == (1, 3)
    assert choose_channels(half, weight, "score", [5, 1, 4, 2]) == (0, 2)
    assert choose_channels(half, weight, "first") == (0, 1)


def test_a_small_share_is_at_least_one_channel_and_a_whole_one_needs_no_list():
    weight = np.ones((2, 4))
    assert choose_channels(Update("layer", share=Fraction(1, 64)), weight) == (0,)
    assert choose_channels(Update("layer", share=Fraction(1)), weight) == ()


def test_every_published_scheme_fits_its_model(shared_models):
    for name in PUBLISHED:
        graph = insitu.load(shared_models / f"{name.partition('/')[0]}.pkl").graph
        body = layers(graph)[:-1]
        scheme = read_scheme(name, body)
        biases, weights, shares = PUBLISHED[name]
        assert sum(u.bias for u in scheme.updates) == biases
        assert [u.layer for u in scheme.updates if u.share] == [body[i].name for i, s in zip(weights, shares) if s]
        assert json.loads(scheme.to_json())["name"] == name


def test_a_rung_with_smaller_shares_names_the_one_that_goes_into_the_image(net):
    shares = next(n for n, step in enumerate(rungs(net)) if 0 < step.share < 1)
    with pytest.raises(SchemeError, match="does not train in the same way") as e:
        read_scheme(f"head+ladder:{shares}+full", net)
    named = e.value.hint.partition('"')[2].strip('"')
    assert named == f"head+ladder:{shares - 1}+full"
    assert [low.name for low in read_scheme(named, net).lower] == ["head", f"ladder:{shares - 1}"]


@pytest.mark.parametrize("word", ["auto", "auto:ladder", "auto:measured"])
def test_auto_is_no_part_of_a_sum(net, word):
    with pytest.raises(SchemeError, match="is chosen alone") as e:
        read_scheme(f"head+{word}", net)
    assert "head+ladder:N" in e.value.hint
