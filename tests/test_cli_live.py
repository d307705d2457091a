"""`insitu live`: what a board that collects and learns is doing."""

from __future__ import annotations

import json
import re

import numpy as np
import pytest

pytest.importorskip("torch")
pytest.importorskip("unicorn")

from insitu.cli import main

from .devices.living import CLASSES, compiled, points


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """A living program's folder, and samples to show it."""
    where = tmp_path_factory.mktemp("live")
    compiled().write(where / "build")
    x, y = points(30)
    np.savez(where / "day.npz", x=x, y=y)
    return where


def live(folder, capsys, *words: str) -> dict:
    assert main(["live", str(folder / "build"), *words, "--json"]) == 0
    return json.loads(capsys.readouterr().out)


def test_a_board_is_shown_samples_learns_and_goes_on_the_next_day(folder, capsys):
    flash = str(folder / "board.flash")
    data = ["--data", str(folder / "day.npz"), "--labelled", "0.9"]
    first = live(folder, capsys, *data, "--rehearse", "12", "--rate", "0.05", "--flash", flash)
    assert first["observed"] == first["kept"] == 30 and first["unlabelled"] == 3 and first["steps"] == 12
    assert sum(c["labelled"] for c in first["classes"]) == 27 and len(first["classes"]) == CLASSES
    assert first["slice_instructions"] > 0 and first["millijoules"] > 0 and not first["continued"]
    second = live(folder, capsys, "--flash", flash)
    assert second["continued"] and second["steps"] == 12 and second["classes"] == first["classes"]


def test_a_rate_that_is_not_given_follows_from_the_labelled_samples(folder, capsys, tmp_path):
    flash = tmp_path / "board.flash"
    words = ["live", str(folder / "build"), "--rehearse", "12", "--flash", str(flash), "--json"]
    assert main([*words, "--data", str(folder / "day.npz")]) == 0
    done = capsys.readouterr()
    x, _ = points(30)
    found = float(re.search(r"rate (\S+), from 30 labelled samples", done.err)[1])
    assert json.loads(done.out)["steps"] == 12 and 0 < found < 1
    large = {"x": 10 * x, "y": points(30)[1]}
    np.savez(tmp_path / "large.npz", **large)
    assert main([*words[:-2], str(tmp_path / "other.flash"), "--json", "--data", str(tmp_path / "large.npz")]) == 0
    less = float(re.search(r"rate (\S+), from", capsys.readouterr().err)[1])
    assert less < found / 5  # its features are larger
    assert main(words) == 0
    assert "note: rate 0.01, because no labelled sample was shown" in capsys.readouterr().err


def test_what_is_shown_is_readable(folder, capsys):
    assert main(["live", str(folder / "build"), "--data", str(folder / "day.npz"), "--samples", "5"]) == 0
    text = capsys.readouterr().out
    assert "5 of" in text and "no bout yet" in text and "worst slice" in text and "5 of the first 64" in text


def test_mistakes_are_told(folder, capsys, tmp_path):
    (tmp_path / "other.flash").write_bytes(b"too short")
    assert main(["live", str(folder / "build"), "--flash", str(tmp_path / "other.flash")]) == 1
    assert "has 9 bytes" in capsys.readouterr().err
    assert main(["live", str(folder / "build"), "--rehearse", "3"]) == 1
    assert "without a sample to learn from" in capsys.readouterr().err


def test_a_place_for_the_flash_that_cannot_be_one_is_told_before_the_board_learns(folder, capsys, tmp_path):
    for place, why in (("/dev/full", "is not a file"), (tmp_path / "none" / "board.flash", "there is no folder")):
        assert main(["live", str(folder / "build"), "--flash", str(place)]) == 1
        assert why in capsys.readouterr().err


def test_samples_without_labels_are_shown_without(folder, capsys, tmp_path):
    np.savez(tmp_path / "seen.npz", x=points(30)[0])
    found = live(folder, capsys, "--data", str(tmp_path / "seen.npz"))
    assert found["observed"] == found["unlabelled"] == 30


def test_a_bout_that_is_refused_leaves_the_samples_that_were_shown_before_it(folder, capsys, tmp_path):
    x, y = points(30)
    np.savez(tmp_path / "some.npz", x=x[y < 2], y=y[y < 2])
    words = ["--data", str(tmp_path / "some.npz"), "--rehearse", "3", "--flash", str(tmp_path / "board.flash")]
    assert main(["live", str(folder / "build"), *words]) == 1
    assert "without a sample to learn from" in capsys.readouterr().err
    assert live(folder, capsys, "--flash", str(tmp_path / "board.flash"))["kept"] == (y < 2).sum()


def test_the_folder_runs_and_is_proved_like_any_other(folder, capsys):
    assert main(["run", str(folder / "build"), "--steps", "2"]) == 0
    assert main(["prove", str(folder / "build"), "--steps", "2"]) == 0
    assert "everything holds" in capsys.readouterr().out


def test_the_manifest_describes_the_life(folder):
    found = json.loads((folder / "build" / "insitu.json").read_text())
    assert found["store"] == 4096 and found["life"]["in"] == "flash"
    assert found["figures"]["life"]["slice"] == "learning"
    script = (folder / "build" / "firmware" / "link.ld").read_text()
    kept = found["life"]["flash_bytes"]
    assert f"LENGTH = {262144 - kept}" in script and ".life" in script


def test_what_was_counted_is_said_to_be_a_measurement():
    from insitu.cli.compile import life_rows

    life = {"capacity": 9, "latent_bytes": 32, "in": "flash", "classes": 4, "observe_instructions": 1000,
            "slice_instructions": 70, "slice": "learning"}  # fmt: skip
    told = dict(life_rows(life))
    assert told["keeping one"] == "1,000 instructions, the most that was counted (store full; no proof)"
    assert told["worst slice"] == "70 instructions (learning), the most that was counted"
