"""The accuracy bench measures what it says: views, rates, kept outputs and floors. Its numbers are not tested here."""

import json
from dataclasses import asdict

import numpy as np
import pytest

from bench import accuracy, gradients, photos, transfer
from bench.transfer import Run

Image = pytest.importorskip("PIL.Image")


@pytest.fixture
def quick(shared_models, shared_data, tmp_path, monkeypatch):
    """A run over eight photos that leaves only compiled programs in the user's cache."""
    for path in (shared_models / "mcunet-5fps.pkl", shared_data / "person.npz"):
        if not path.exists():
            pytest.skip(f"no {path}")
    monkeypatch.setattr(transfer, "cache_folder", lambda: tmp_path)
    return Run("person", "head", limit=8, epochs=2)


def test_a_random_view_is_cut_from_inside_the_photo_with_the_area_asked_for():
    rng = np.random.default_rng(0)
    boxes = np.array([photos.random_box(rng) for _ in range(200)])
    assert boxes.min() >= 0 and boxes.max() <= photos.SIDE
    sides = boxes[:, 2:] - boxes[:, :2]
    area, ratio = sides.prod(1) / photos.SIDE**2, sides[:, 0] / sides[:, 1]
    assert 0.35 <= area.min() < 0.45 and 0.9 < area.max() <= 1
    assert ratio.min() > 0.75 - 1e-9 and ratio.max() < 4 / 3 + 1e-9


def test_views_of_a_seed_are_always_the_same_and_those_of_another_differ():
    image = Image.fromarray(np.random.default_rng(0).integers(0, 256, (128, 128, 3), np.uint8))
    one, same, other = (photos.random_view(image, np.random.default_rng(s)) for s in (1, 1, 2))
    assert one.shape == (128, 128, 3) and one.dtype == np.uint8
    assert (one == same).all() and (one != other).any()


def test_the_centre_view_does_not_see_the_edge():
    pixels = np.full((128, 128, 3), 100, np.uint8)
    pixels[:7] = pixels[-7:] = pixels[:, :7] = pixels[:, -7:] = 255  # the eighth pixel may blend in
    assert (photos.centre(Image.fromarray(pixels)) == 100).all()


def test_rates_rise_over_one_epoch_fall_to_zero_and_are_smaller_in_proportion_at_batch_1():
    alone, together = Run("person", "head"), Run("person", "head", batch=64)
    rates = [r for epoch in range(3) for r in transfer.rates_of(alone, epoch, 3, 128)]
    top = alone.full_rate / 64
    assert len(rates) == 3 * 128 and max(rates) == pytest.approx(top)
    assert rates[:128] == sorted(rates[:128]) and rates[128:] == sorted(rates[128:], reverse=True)
    assert rates[-1] < top * 1e-3
    assert max(transfer.rates_of(together, 0, 3, 128)) == pytest.approx(64 * top)


def test_a_floor_that_is_missed_is_named():
    good = {"A": 90.0, "B": 90.0, "loss": 0.02}
    assert accuracy.misses({"flowers/99kb/residual/1": good}) == []
    assert "79.9" in accuracy.misses({"flowers/99kb/residual/1": {**good, "B": 79.9}})[0]
    assert "loss" in accuracy.misses({"flowers/99kb/residual/1": {**good, "loss": 0.031}})[0]
    assert "loss" in accuracy.misses({"flowers/99kb/residual/1": {**good, "loss": float("nan")}})[0]


def test_absent_data_are_named(tmp_path, monkeypatch, capsys):
    monkeypatch.setenv("INSITU_TEST_FILES", str(tmp_path))
    assert accuracy.main(["--only", "person/head", "-o", str(tmp_path / "a.json")]) == 1
    message = capsys.readouterr().err
    assert str(tmp_path) in message and "INSITU_TEST_FILES" in message


def test_outputs_carried_on_from_an_earlier_cut_are_those_of_the_whole_prefix(quick):
    kept = transfer.remember(quick.data, quick.seed, 1, quick.limit)
    prefix = transfer.cut(quick).prefix
    way = transfer.between(transfer.earliest(quick.data), prefix)
    carried = transfer.carry_on(way, kept.arrays("test"))
    test = transfer.part_of(quick.data, "test", quick.limit)
    pixels = np.stack([photos.whole(test.image(i)) for i in range(len(test))])
    direct = transfer.opened(predict=prefix).run("predict", transfer.as_input(pixels))
    for a, b in zip(carried, direct, strict=True):
        assert (a[:, 1].reshape(b.shape) == b).all()


def test_a_quick_run_writes_its_numbers(quick, tmp_path, capsys):
    out = tmp_path / "a.json"
    arguments = ["--only", "person/head", "--limit", "8", "--epochs", "4", "--jobs", "1", "-o", str(out)]
    assert accuracy.main(arguments) == 0
    (found,) = json.loads(out.read_text())["runs"].values()
    assert 0 <= found["A"] <= 100 and len(found["losses"]) == 4 and found["updates"] == 4 * 8 * 2
    assert "person" in capsys.readouterr().out


# integer gradients ------------------------------------------------------------------------------


def scored(**points) -> dict[str, dict]:
    """Results in which every run reaches 80 / 80, except those of these gradients."""
    return {n: {"A": 80.0, "B": points.get(r.grad, 80.0), "loss": 0.02} for n, r in gradients.runs().items()}


def test_gradients_are_judged_by_the_mean_over_the_seeds_each_by_its_own_limit():
    assert gradients.misses(scored(s16=79.5, s8=79.0)) == []
    assert [m.split(":")[1].split()[0] for m in gradients.misses(scored(s16=79.4, s8=79.4))] == ["s16", "s16"]
    assert [m.split(":")[1].split()[0] for m in gradients.misses(scored(s8=78.9))] == ["s8", "s8"]
    found = scored()
    found["flowers/s16/0"]["B"], found["flowers/s16/1"]["B"] = 79.2, 80.0
    assert gradients.misses(found) == []
    found["flowers/s16/1"]["B"] = 79.7
    assert gradients.misses(found) == ["flowers, B: s16 is 0.55 points below f32, more than 0.5"]


def test_earlier_results_are_known_by_what_was_run_and_not_by_their_names(tmp_path):
    run = Run("person", gradients.SCHEME, seed=1, grad="s8")
    kept = {**asdict(run), "rate": run.full_rate, "A": 86.0}
    others = [{**kept, "seed": 2}, {**kept, "limit": 8}, {**kept, "epochs": 1}, {**kept, "batch": 64}]
    path = tmp_path / "some.json"
    path.write_text(json.dumps({"runs": {"any name": kept, **{str(i): o for i, o in enumerate(others)}}}))
    assert gradients.given([path]) == {"person/s8/1": kept}
