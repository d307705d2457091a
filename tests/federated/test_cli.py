"""`insitu fleet` on the command line, as far as it goes without a network."""

import json

import numpy as np
import pytest

from insitu.cli import main
from insitu.errors import DataError
from insitu.federated.processes import free_port
from insitu.reports.fleet import fleet_page
from insitu.reports.fleet_text import told
from tests.federated.fleet import fresh, samples
from tests.learners import imported

pytest.importorskip("flwr", reason='flwr is not installed: pip install "insitu[flower]"')

ABOUT = {
    "rounds": [{"round": 1, "down": 2000, "up": 600, "replies": 3, "loss": 1.5,
                "each": {"7": [900, 300], "8": [1100, 300]},
                "who": [{"node": 7, "samples": 24, "program": 0, "left_out": []},
                        {"node": 8, "samples": 1028, "program": 1, "left_out": []}]},
               {"round": 2, "down": 2000, "up": 400, "replies": 2, "loss": 0.75, "who": [], "each": {"7": [24, 3]}}],
    "programs": [{"scheme": "full", "tensors": {"head.weight": 32, "stem.weight": 9}},
                 {"scheme": "bias:1", "tensors": {"stem.bias": 4}}],
    "dropped": [{"round": 2, "node": 7, "why": "delta: is <damaged>"}],
    "devices": {"0": {"7": 0.25, "8": 0.5}, "2": {"7": 0.75, "8": 0.875}},
    "scores": {"accuracy": 0.8}, "tensors": {"head.weight": [4, 8]}, "float_bytes": 1000, "strategy": "FedAvg",
    "personal": ["stem"], "own": {"7": 0.5, "8": 1.0},
}  # fmt: skip


def test_a_page_shows_rounds_devices_and_what_was_dropped(tmp_path, capsys):
    record, page = tmp_path / "run.json", tmp_path / "run.html"
    record.write_text(json.dumps(ABOUT))
    assert main(["fleet", "report", str(record), "-o", str(page)]) == 0
    text = page.read_text()
    for words in ("81.2%", "37.5% before, 75.0% on the worst", "200 B per round", "5 times fewer than float32",
                  "is &lt;damaged&gt;", "4 x 8", "stayed on their devices: stem",
                  "50.0% on the worst device", "A: full", "head, stem", "41 numbers, 1 device", "B: bias:1",
                  "stem.bias",
                  "<td class=i>1 A</td><td class=n>24</td><td class=n>1 of 2</td><td class=n>924 B</td>",
                  "<td class=i>2 B</td><td class=n>1,028</td><td class=n>1 of 1</td>"):  # fmt: skip
        assert words in text, words


def test_bytes_of_dropped_replies_are_not_what_a_device_sends():
    """Device 9 sent 9,000 bytes of nonsense; nobody knows how many samples it has, either."""
    who = [{"node": n, "samples": 24, "program": 0, "left_out": []} for n in (7, 8)]
    one = {"round": 1, "down": 72, "up": 9600, "replies": 2, "loss": 1.5, "who": who,
           "each": {"7": [24, 200], "8": [24, 400], "9": [24, 9000]}}  # fmt: skip
    about = {**ABOUT, "rounds": [one], "seen": ["7"], "tests": 1037}
    assert "300 B from each device and round, 3 times fewer" in told(about)
    words = (
        "the devices' own tests (1,037 samples in all); 1 of 2 have none and are tested on samples that they learned"
    )
    assert words in told(about) and "own tests, the" in told({**about, "seen": [], "tests": 0})
    page = fleet_page(about)
    assert "300 B per round" in page and "<td class=i>3</td><td class=n>-</td><td class=n>0 of 1</td>" in page


def test_a_page_is_made_of_records_that_do_not_say_who_trained_what(tmp_path):
    rounds = [{k: v for k, v in r.items() if k not in ("each", "who")} for r in ABOUT["rounds"]]
    old = {k: v for k, v in ABOUT.items() if k != "programs"} | {"rounds": rounds}
    record = tmp_path / "run.json"
    record.write_text(json.dumps(old))
    assert main(["fleet", "report", str(record)]) == 0
    assert "Who trained what" not in record.with_suffix(".html").read_text()


@pytest.mark.parametrize("line, words", [
    ("simulate", "FILE is missing"),
    ("simulate {learner}", "--data is missing"),
    ("simulate {folder}/no.onnx --data {data}", "no.onnx: no such file"),
    ("simulate {learner} --data {data} --strategy fedsomething", "unknown strategy 'fedsomething'"),
    ("simulate {learner} --each {data} {data} --strategy fedsomething", "2 devices, 64 samples to learn from"),
    ("simulate {learner} --each {folder} --strategy fedsomething", "1 device, 32 samples to learn from"),
    ("simulate {learner} --data {data} --noise 1 --epsilon 5", "--epsilon limits what a device tells under"),
    ("join {learner} --data {data} --superlink 127.0.0.1:1 --epsilon 5", "--epsilon limits what a device tells under"),
    ("simulate {learner} --each {data} {folder}/wrong.csv", "wrong.csv: no such file"),
    ("simulate {learner} --data {data} --personal stemm", "personal: the model has no layer 'stemm'"),
    ("simulate {learner} --data {data} -o /nowhere/at/all.insitu", "-o: cannot write a file to /nowhere"),
    ("join {learner} --data x.npz", "--superlink is missing"),
    ("gateway {learner} --superlink 127.0.0.1:1", "--boards is missing"),
    ("gateway {learner} -o mine.insitu", "boards keep their models themselves"),
    ("serve {learner} --host 0.0.0.0", "needs a certificate"),
    ("report {learner}", "is not the record of a fleet"),
    ("simulate {learner} --data {data} --secure --private central --noise 1", "--private central needs to see single"),
    ("simulate {learner} --data {data} --secure --coding ternary", "cannot be summed under masks"),
    ("simulate {learner} --data {data} --secure --strategy krum", "Krum needs to see single devices' changes"),
    ("serve {learner} --devices a.pub", "mean nothing without a certificate"),
    ("join {learner} --data {data} --superlink 127.0.0.1:1 --key a.key", "only to a server that it knows"),
    ("join {learner} --data {data} --superlink here", "here: is not an address like HOST:PORT"),
    ("serve {learner} -o state.bin", "is written to an .insitu file"),
])  # fmt: skip
def test_what_is_missing_is_said_in_one_line(line, words, tmp_path, capsys):
    pytest.importorskip("ray", reason='Ray is not installed: pip install "insitu[flower-sim]"')
    learner, data = tmp_path / "learner.insitu", tmp_path / "data.npz"
    fresh().save(learner)
    x, y = samples(40, 1)
    np.savez(data, x=x, y=y)
    assert main(["fleet", *line.format(learner=learner, data=data, folder=tmp_path).split()]) == 1
    assert words in capsys.readouterr().err


def test_a_device_without_a_server_says_what_it_waits_for(tmp_path, capsys, monkeypatch):
    """Every join starts Flower's supernode, which waits silently: the note comes from us, and Ctrl-C still stops it."""
    from insitu.federated import serving

    address, told = f"127.0.0.1:{free_port()}", []

    def say(words: str) -> None:
        told.append(words)
        raise KeyboardInterrupt

    monkeypatch.setattr(serving, "say", say)
    with pytest.raises(KeyboardInterrupt):
        serving.join(serving.Joined(address, {}, quiet=0.5))
    assert told == [f"note: no server answers at {address} yet; waiting until `insitu fleet serve` listens there. "
                    "Ctrl-C stops"]  # fmt: skip


def test_a_device_whose_server_listens_does_not_say_that_none_answers(tmp_path, monkeypatch):
    """Flower's own start can take longer than the device is patient, on a busy machine."""
    import socket
    import subprocess
    import sys

    from insitu.federated import serving
    from insitu.federated.events import Events

    told: list[str] = []
    monkeypatch.setattr(serving, "say", told.append)
    (tmp_path / "log").write_text("")
    slow = [sys.executable, "-c", "import time; time.sleep(2)"]
    with socket.create_server(("127.0.0.1", 0)) as server, subprocess.Popen(slow) as process:
        wanted = serving.Joined(f"127.0.0.1:{server.getsockname()[1]}", {}, quiet=0.1)
        serving._follow(process, tmp_path / "log", wanted, Events(tmp_path / "events"))
    assert told == []


def test_a_server_hears_how_long_to_wait_and_says_that_it_goes_on(tmp_path, capsys, monkeypatch):
    from insitu.federated import serving

    asked = []
    monkeypatch.setattr(serving, "serve", lambda wanted, ready: asked.append(wanted.settings["timeout"]) or ABOUT)
    learner, output = tmp_path / "g.insitu", tmp_path / "together.insitu"
    fresh().save(learner)
    assert main(["fleet", "serve", str(learner), "-o", str(output), "--wait", "90"]) == 0
    assert "goes on" not in capsys.readouterr().err
    (tmp_path / "together.insitu.rounds").write_bytes(b"")
    assert main(["fleet", "serve", str(learner), "-o", str(output)]) == 0
    said = "note: goes on after the rounds of an earlier run, in together.insitu.rounds; remove it to begin anew"
    assert asked == [90.0, None] and said in capsys.readouterr().err


def test_a_fleet_without_devices_is_refused():
    pytest.importorskip("ray", reason='Ray is not installed: pip install "insitu[flower-sim]"')
    from insitu.federated.simulate import simulate

    with pytest.raises(DataError, match="needs a device"):
        simulate(fresh(), [])


def test_a_simulation_takes_a_model_and_devices_with_one_sample_or_tests_of_their_own(tmp_path):
    """A model is compiled first; a device with a single sample has none to test on."""
    from insitu.cli.fleet import _compiled, _of_file

    x, y = samples(40, 1)
    np.savez(tmp_path / "all.npz", x=x, y=y)
    np.savez(tmp_path / "one.npz", x=x[:1], y=y[:1])
    np.savez(tmp_path / "own.npz", x_train=x[:30], y_train=y[:30], x_test=x[30:], y_test=y[30:])
    imported().save(tmp_path / "model.insitu")
    learner = _compiled(tmp_path / "model.insitu", str(tmp_path / "all.npz"))
    parts = [_of_file(learner, tmp_path / name, 0) for name in ("one.npz", "own.npz", "all.npz")]
    assert [(len(learn[1]), len(test[1])) for learn, test in parts] == [(1, 0), (30, 10), (32, 8)]


def test_a_model_with_a_file_for_each_device_is_compiled_with_the_first_of_them(tmp_path, capsys):
    from insitu.demo.fleet import FEW_NETWORK
    from insitu.demo.watch import joined, recordings

    pytest.importorskip("ray", reason='Ray is not installed: pip install "insitu[flower-sim]"')
    for n in (3, 4):
        windows = joined([r.part(0, 2) for r in recordings()[n]])
        np.savez(tmp_path / f"{n}.npz", x=windows.x, y=windows.y)
    line = ["simulate", str(FEW_NETWORK), "--each", str(tmp_path), "--strategy", "fedsomething"]
    assert main(["fleet", *line]) == 1  # only the strategy is unknown
    assert "2 devices, 46 samples to learn from" in capsys.readouterr().err
