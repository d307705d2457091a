"""`insitu teach` with small pictures: a new network learns them where that is better, or where it is asked for."""

import sys

import numpy as np
import pytest

import insitu
from insitu.cli import main
from insitu.errors import BudgetError, DataError
from insitu.learner.lesson import Lesson
from insitu.teach import pictures, teach
from insitu.teach.backbones import NEW, Backbone, backbones
from insitu.teach.material import look
from insitu.teach.scratch import LEAST, for_pictures, halvings

Image = pytest.importorskip("PIL.Image")
SHAPES = ("cross", "corner", "bar")


def drawn(shape: str, rng: np.random.Generator) -> np.ndarray:
    """A light figure of 5 x 5 somewhere on 13 x 10 dark pixels."""
    figure = np.zeros((5, 5))
    figure[2, :] = 1
    if shape == "cross":
        figure[:, 2] = 1
    if shape == "corner":
        figure[2:, 0] = 1
    made, (y, x) = rng.integers(0, 60, (13, 10)), (rng.integers(0, 8), rng.integers(0, 5))
    made[y : y + 5, x : x + 5] += (figure * rng.integers(90, 190)).astype(int)
    return made.astype(np.uint8)


def saved(root, count: int, enlarged: int = 1):
    rng = np.random.default_rng(0)
    for shape in SHAPES:
        (root / shape).mkdir(parents=True)
        for k in range(count):
            Image.fromarray(drawn(shape, rng).repeat(enlarged, 0).repeat(enlarged, 1)).save(root / shape / f"{k}.png")
    return root


@pytest.fixture(scope="module")
def shapes(tmp_path_factory):
    return saved(tmp_path_factory.mktemp("shapes"), 60)


@pytest.fixture
def alone(monkeypatch):
    """No network that knows photos is installed."""
    monkeypatch.setattr(Backbone, "here", property(lambda self: False))


def test_small_grey_pictures_are_learned_at_their_own_size_and_fit_a_board(
    alone, shapes, tmp_path, capsys, monkeypatch
):
    monkeypatch.setattr(sys.modules["insitu.teach.teach"], "HEARD", 0)  # 40 epochs
    out = tmp_path / "shapes.insitu"
    assert main(["teach", str(shapes), "-o", str(out), "--board", "nrf52840"]) == 0
    told = capsys.readouterr().out
    assert "network   a new network for pictures" in told and "no network that knows photos is here" in told
    learner = insitu.open(out)
    assert learner.graphs["predict"].inputs[0].type.shape == (1, 13, 10, 1)
    new = np.stack([drawn(name, np.random.default_rng(k)) for name in learner.names for k in range(99, 119)])
    assert learner.evaluate(new[..., None], np.repeat(np.arange(3), 20))["accuracy"] >= 0.9
    assert main(["predict", str(out), str(shapes / "bar" / "0.png")]) == 0
    assert "bar" in capsys.readouterr().out
    taught = teach(shapes, go_on=learner)
    assert taught.network == "a new network for pictures" and taught.tested == 36


def test_both_ways_are_compared_on_examples_to_learn_from_and_the_better_one_wins(shapes):
    material, seen, words = look(shapes), [], []

    def said(what, *_):
        words.append(what)

    class Scored:
        def __init__(self, network, score):
            self.network, self.score = network, score

    def way(network, score):
        def run(inner, lesson, keep, report):
            seen.append((set(inner.keys), int(inner.test.sum())))
            report("reading", 0, 1)
            return Scored(network, score)

        return run

    name, why = pictures.better(material, Lesson(), {"a": way("one", 0.5), "b": way("two", 0.75)}, said)
    assert words == ["comparing networks, 1 of 2: reading", "comparing networks, 2 of 2: reading"]
    assert name == "b" and "one 50.0%, two 75.0%" in why
    tested = {key for key, test in zip(material.keys, material.test) if test}
    assert all(not keys & tested and len(keys) == 144 and held == 30 for keys, held in seen)
    assert pictures.better(material, Lesson(), {"a": way("one", 0.5), "b": way("two", 0.5)}, said)[0] == "a"


@pytest.mark.parametrize("error", [BudgetError("none fits"), DataError("none is here")])
def test_a_way_that_cannot_be_gone_is_left_out(shapes, error):
    class Only:
        network, score = "two", 0.1

    def stuck(*_):
        raise error

    assert pictures.better(look(shapes), Lesson(), {"a": stuck, "b": lambda *_: Only()}, print)[0] == "b"
    assert pictures.better(look(shapes), Lesson(), {"a": stuck, "b": stuck}, print) == ("a", "")


def test_large_pictures_and_few_ones_are_not_compared(shapes, tmp_path):
    assert pictures.are_small(look(shapes))
    assert not pictures.are_small(look(saved(tmp_path / "few", 30)))
    assert not pictures.are_small(look(saved(tmp_path / "large", 60, enlarged=4)))


def test_a_new_network_looks_at_large_photos_reduced_and_in_colour_if_one_has_colours(shapes, tmp_path):
    folder = saved(tmp_path / "large", 4, enlarged=10)
    assert pictures.frame(look(folder)).inputs[0].type.shape == (1, 64, 49, 1)
    Image.fromarray(np.zeros((130, 100, 3), np.uint8)).save(folder / "bar" / "red.png")
    assert pictures.frame(look(folder)).inputs[0].type.shape == (1, 64, 49, 3)
    assert list(backbones(NEW)) == [] and list(backbones(NEW, sounds=True)) == []


@pytest.mark.parametrize("shape", [(1, 1, 1), (2, 3, 1), (5, 9, 3), (48, 48, 3)])
def test_pictures_of_any_size_have_a_network(shape):
    x = np.random.default_rng(0).integers(0, 256, (4, *shape)).astype(np.uint8)
    graph = for_pictures(x, 3)
    assert graph.inputs[0].type.shape == (1, *shape) and graph.outputs[0].type.shape == (1, 3)
    assert min(shape[:2]) <= LEAST * 2 ** halvings(min(shape[:2]))


def test_ctrl_c_in_the_comparison_says_that_nothing_was_learned(shapes, tmp_path, capsys, monkeypatch):
    def pressed(*_):
        raise KeyboardInterrupt

    monkeypatch.setattr(sys.modules["insitu.teach.teach"], "_from_either", pressed)
    assert main(["teach", str(shapes), "-o", str(tmp_path / "a.insitu")]) == 130
    assert "interrupted before anything was learned" in capsys.readouterr().err
    assert not (tmp_path / "a.insitu").exists()
