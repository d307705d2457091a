"""A learner in a page: the module in wasmtime, its JavaScript in Node, the page in Chromium."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
from dataclasses import replace
from functools import cache
from pathlib import Path

import numpy as np
import pytest
import torch
from torch import nn

import insitu
from insitu.exporters.web import opened, parts_of

from ..learners import data, learner, mlp
from ..reports.test_html import needs_browser, shown_by_chromium
from .test_features import HEARD, listener, sounds

pytest.importorskip("wasmtime", reason="runs WebAssembly")
NODE = shutil.which("node")
needs_node = pytest.mark.skipif(NODE is None, reason="runs JavaScript in Node")
NAMES = ["rest", "tap", "wave", "fist"]


class TwoInputs(nn.Module):
    def __init__(self):
        super().__init__()
        torch.manual_seed(0)
        self.a, self.b, self.end = nn.Linear(3, 8), nn.Linear(2, 8), nn.Linear(8, 3)

    def forward(self, a, b):
        return self.end(torch.relu(self.a(a) + self.b(b)))


def signals(outputs: int = 3) -> nn.Module:
    """A 1-D network of odd sizes."""
    torch.manual_seed(1)
    return nn.Sequential(nn.Conv1d(2, 5, 3, stride=2), nn.BatchNorm1d(5), nn.ReLU(), nn.Conv1d(5, 7, 3), nn.ReLU(),
                         nn.AdaptiveAvgPool1d(1), nn.Flatten(), nn.Linear(7, outputs)).eval()  # fmt: skip


def waves(count: int = 24):
    rng, y = np.random.default_rng(0), np.arange(count) % 3
    x = np.sin(np.arange(31) * (0.3 + 0.4 * y[:, None, None])) + 0.1 * rng.normal(size=(count, 2, 31))
    return x.astype(np.float32), y


def made(kind: str) -> tuple[insitu.Learner, tuple[np.ndarray, ...], np.ndarray]:
    """A learner with random weights, samples and labels."""
    if kind == "sound":
        made, x = listener(HEARD["mfcc"], precision="int8")
        return made, (x,), sounds(HEARD["mfcc"], 9)[1]
    if kind == "two inputs":
        rng = np.random.default_rng(0)
        x = rng.normal(size=(20, 3)).astype(np.float32), rng.normal(size=(20, 2)).astype(np.float32)
        return insitu.compile(TwoInputs().eval(), data=x, scheme="full"), x, x[0].argmax(1)
    if kind in ("yes or no", "shares"):
        x, y = data(24, classes=3)
        loss = "binary_cross_entropy" if kind == "yes or no" else "soft_cross_entropy"
        module = mlp(classes=1 if kind == "yes or no" else 3)
        made = insitu.compile(module, data=x, scheme="full", recipe=insitu.Recipe(loss=loss))
        shares = np.full((24, 3), 0.1, np.float32) + 0.7 * np.eye(3, dtype=np.float32)[y]
        return made, (x,), (y[:, None] > 0).astype(np.float32) if kind == "yes or no" else shares
    if kind in ("signals", "auto", "targets", "added up"):
        x, y = waves()
        how = {"signals": {"scheme": "full"}, "auto": {}, "added up": {"batch": 4, "scheme": "last:2"},
               "targets": {"scheme": "full", "recipe": insitu.Recipe(loss="mse")}}[kind]  # fmt: skip
        made = insitu.compile(signals(2 if kind == "targets" else 3), data=x, **how)
        return made, (x,), np.stack([y, 2 - y], 1).astype(np.float32) if kind == "targets" else y
    x, y = data(24)
    int8 = {"precision": "int8", "data": x} if kind == "int8" else {}
    optimizer = kind if kind in ("adam", "momentum") else "sgd"
    return learner(classes=NAMES, recipe=insitu.Recipe(optimizer=optimizer), **int8), (x,), y


KINDS = (
    "float",
    "int8",
    "adam",
    "momentum",
    "signals",
    "auto",
    "added up",
    "targets",
    "two inputs",
    "sound",
    "yes or no",
    "shares",
)


@cache
def exported(kind: str, folder: Path) -> dict:
    """What Node says of the file: as it came, after an update with each sample, after a fit."""
    learner, x, y = made(kind)
    file = learner.export(folder / f"{kind.replace(' ', '-')}.mjs").path
    rows = [[a[i].ravel().tolist() for a in x] for i in range(len(y))]
    samples = rows if len(x) > 1 else [row[0] for row in rows]
    given = json.dumps({"x": samples, "y": y.tolist(), "rate": 0.01, "unseen": samples[:5]})
    command = [str(NODE), str(Path(__file__).parent / "web/run.mjs"), str(file)]
    done = subprocess.run(command, text=True, check=False, capture_output=True, timeout=120, input=given)
    assert not done.returncode, done.stderr
    return json.loads(done.stdout)


@pytest.fixture(scope="module")
def folder(tmp_path_factory) -> Path:
    return tmp_path_factory.mktemp("web")


@needs_node
@pytest.mark.parametrize("kind", KINDS)
def test_a_page_learns_the_same_bytes(kind: str, folder: Path):
    said = exported(kind, folder)
    here, x, y = made(kind)
    assert said["first"] == here.device.save_state().hex()
    np.testing.assert_array_equal(np.float32(said["predicted"]), here.predict(*(a[:5] for a in x)).reshape(5, -1))
    losses = [here.partial_fit(*pair(x, y, i), rate=0.01).loss[0] for i in range(len(y))]
    assert said["learned"] == here.device.save_state().hex()
    np.testing.assert_allclose(said["losses"], losses, rtol=1e-6)
    assert said["before"] == pytest.approx(here.evaluate(x[0] if len(x) == 1 else x, y))
    assert said["unchanged"] and said["reset"] == said["first"]


def pair(x: tuple[np.ndarray, ...], y: np.ndarray, i: int):
    return (x[0][i : i + 1] if len(x) == 1 else tuple(a[i : i + 1] for a in x)), y[i : i + 1]


@needs_node
@pytest.mark.parametrize("kind", KINDS)
def test_a_page_finds_the_rate_that_partial_fit_finds(kind: str, folder: Path):
    """Nearly: it measures with eight samples, too, but with others."""
    said = exported(kind, folder)
    here, x, y = made(kind)
    for i in range(len(y)):
        here.partial_fit(*pair(x, y, i), rate=0.01)
    found = here.partial_fit(x[0] if len(x) == 1 else x, y)
    assert said["measured"]["head"] == pytest.approx(found.head_rate, rel=0.5)
    if found.rate != found.head_rate:
        assert said["measured"]["body"] == pytest.approx(found.rate, rel=0.5)


@needs_node
@pytest.mark.parametrize("kind", ["float", "signals", "targets", "two inputs", "yes or no", "shares"])
def test_fit_in_a_page_learns(kind: str, folder: Path):
    said = exported(kind, folder)
    assert not said["history"]["restored"] and said["history"]["loss"][-1] < said["history"]["loss"][0]
    assert said["after"].get("accuracy", 1) >= said["before"].get("accuracy", 0)


@needs_node
def test_classes_are_named_with_their_probabilities(folder: Path):
    said = exported("float", folder)
    assert {one["name"] for one in said["classified"][0]} == set(NAMES)
    for row in said["classified"]:
        chances = [one["probability"] for one in row]
        assert sum(chances) == pytest.approx(1) and chances == sorted(chances, reverse=True)


@needs_node
def test_what_does_not_fit_is_refused_in_words(folder: Path):
    said = exported("float", folder)
    label, count, size, damage, empty, numbers = said["refused"]
    assert "rest, tap, wave, fist" in label and "6 numbers, not 2" in count
    assert "wrong size" in size and "damaged" in damage
    assert "0 samples" in empty and "not finite" in numbers
    assert said["whole"]


LOADED = """
import { readFileSync } from "node:fs";
const { open } = await import(process.argv[1]);
const learner = await open();
learner.load(readFileSync(process.argv[2]));
process.stdout.write(Buffer.from(learner.save()).toString("hex"));
"""


@needs_node
def test_a_page_and_python_load_what_the_other_saved(tmp_path):
    x, y = data(30)
    here = learner(precision="int8", data=x, classes=NAMES)
    file = here.export(tmp_path / "net.mjs").path
    here.fit(x, y, epochs=1, rate=0.05)
    command = [str(NODE), "--input-type=module", "-e", LOADED, file.as_uri(), str(here.save(tmp_path / "net.state"))]
    said = subprocess.run(command, text=True, check=True, capture_output=True, timeout=120).stdout
    assert said == here.device.save_state().hex()
    (tmp_path / "page.state").write_bytes(bytes.fromhex(said))
    again = learner(precision="int8", data=x, classes=NAMES)
    again.load(tmp_path / "page.state")
    np.testing.assert_array_equal(again.predict(x), here.predict(x))
    other = learner(precision="int8", data=x, classes=NAMES[::-1]).save(tmp_path / "other.state")
    done = subprocess.run([*command[:-1], str(other)], text=True, check=False, capture_output=True, timeout=120)
    assert "the state has other classes, or another order: fist, wave, tap, rest" in done.stderr


def test_the_module_of_a_file_predicts_and_learns_what_the_learner_does(tmp_path):
    x, y = data(30)
    here = learner(precision="int8", data=x, classes=NAMES)
    here.fit(x, y, epochs=2, rate=0.05)
    made = here.export(tmp_path / "net.mjs")
    assert any(note == "wasmtime: outputs equal, on 4 samples" for note in made.notes)
    with opened(made.path.read_bytes(), here.program) as device:
        there = here.on(device)
        assert there.device.save_state() == here.device.save_state()
        for one in (here, there):
            one.fit(x, y, epochs=1, rate=0.05)
        assert there.device.save_state() == here.device.save_state()


def test_the_same_learner_gives_the_same_file(tmp_path):
    here = learner(classes=NAMES)
    first, second = (here.export(tmp_path / name).path.read_bytes() for name in ("a.mjs", "b.mjs"))
    assert first == second


def test_what_a_page_cannot_run_is_refused(tmp_path):
    module = nn.Sequential(nn.Linear(6, 8), nn.BatchNorm1d(8), nn.ReLU(), nn.Linear(8, 4))
    at_once = learner(scheme="full", batch=4, module=module)
    with pytest.raises(insitu.DataError, match="takes 4 samples at once"):
        at_once.export(tmp_path / "net.mjs")


@needs_browser
def test_a_browser_opens_the_page_without_a_complaint(tmp_path):
    made = learner(classes=["<rest>", "tap", "</script>", "fist"]).export(tmp_path / "net.html")
    dom, said = shown_by_chromium(made.path)
    assert not said
    assert "&lt;rest&gt;</button>" in dom and "&lt;/script&gt;</button>" in dom


def test_the_page_has_the_module_of_the_javascript_file(tmp_path):
    here = learner(classes=NAMES)
    script, page = (here.export(tmp_path / name).path.read_bytes() for name in ("net.mjs", "net.html"))
    assert parts_of(script) == parts_of(page)
    assert not re.search(r'(?:src|href)="', page.decode())


def test_names_cannot_leave_their_place_in_the_file(tmp_path):
    here = insitu.compile(mlp(), example=torch.zeros(1, 6), precision="float", classes=["'", '"', "*/", "</script>"])
    here.graphs["predict"] = replace(here.graphs["predict"], name='x\nalert("no")')
    assert parts_of(here.export(tmp_path / "net.mjs").path.read_bytes())["ABOUT"]["classes"][3] == "</script>"
    assert "\nalert" not in here.export(tmp_path / "net.html").path.read_text()
