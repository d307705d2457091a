"""Keywords from raw samples: features, memory and instructions on an emulated Cortex-M4F, and accuracy after learning.

    python -m bench.keywords             the tables of docs/sound.md; minutes
    python -m bench.keywords --quick     features and memory only

Needs kws-dscnn-int8 and speech7 in the zoo's cache. The parts of the data (train, val, test) share no speaker. A
network is taught the seven words on `train`; a device then learns from `val`, as recorded or with a hum behind the
words, and is tested on `test` in the same way. The rates are found by `fit`, from `val` alone. The C runs on the host,
except for what is counted; the first steps are also done on the emulated core, which must give the same state, byte
for byte.
"""

from __future__ import annotations

import argparse
import sys

import numpy as np

from insitu.demo.audio import BOARD, LISTENING, noisy_learner, quiet_learner
from insitu.demo.lesson import GRADIENTS
from insitu.demo.words import Words, labels, words
from insitu.devices.host import open_host
from insitu.learner import Learner
from insitu.learner.learned import learned_model
from insitu.ops import _sound as tables
from insitu.pipeline import compile
from insitu.preprocess import Audio
from insitu.terminal.table import size, table
from insitu.training.train import Recipe

SCHEMES = ("head", "last:4")
SILENT = 8  # of 65,536: the range of the samples of a frame
STEPS = 3  # done on the emulated core and on the host
FEATURES = ("spectrum", "log_mel", "mfcc")


def main() -> int:
    parser = argparse.ArgumentParser(description="keywords from raw samples")
    parser.add_argument("--quick", action="store_true", help="features and memory only")
    quick = parser.parse_args().quick
    print(features_table(), "\n", sep="\n")
    text, same = memory_table()
    print(text, "\n", sep="\n")
    if not quick:
        print(accuracy_table())
    return 0 if same else 1


# features -----------------------------------------------------------------------------------------------


def in_float(audio: Audio, sound: np.ndarray) -> np.ndarray:
    """The MFCC of sounds int16[N, samples] in float64, by numpy's FFT."""
    frames = np.lib.stride_tricks.sliding_window_view(sound / 32768.0, audio.window, axis=1)[:, :: audio.hop]
    n = tables.points(audio.window)
    amplitudes = np.abs(np.fft.rfft(frames * tables.WINDOWS[audio.shape](audio.window), n))
    sums = amplitudes @ tables.mel_weights(audio.bands, n, audio.rate, audio.low, audio.high).T
    rows = np.cos(np.pi * np.arange(audio.features)[:, None] * (np.arange(audio.bands) + 0.5) / audio.bands)
    return np.log(sums + audio.floor) @ rows.T * np.sqrt(2 / audio.bands)


def features_table() -> str:
    """Our integers against float64, in units of the network's int8 input; and C against numpy."""
    audio, x = Audio(), words("test").x[::3]
    t = quiet_graph_input()
    ours, exact = audio.of(x), in_float(audio, x.reshape(len(x), -1))
    steps = [np.clip(np.rint(f / t.scale) + t.zero, -128, 127) for f in (ours, exact)]
    apart = np.abs(steps[0] - steps[1])
    c = np.asarray(open_host(audio.graph()).predict(x)).reshape(ours.shape)
    rows = [
        ("clips", str(len(x))),
        ("mean error of an MFCC", f"{np.abs(ours - exact).mean():.1e}"),
        ("99.9 % of errors are below", f"{np.quantile(np.abs(ours - exact), 0.999):.3f}"),
        ("a step of the int8 input", f"{t.scale:.3f}"),
        ("int8 inputs that differ, by one step", f"{np.mean(steps[0] != steps[1]):.2%}"),
        ("largest difference in steps", f"{apart.max():.0f}"),
        (f"the same, where samples differ by more than {SILENT}", f"{apart[heard(audio, x)].max():.0f}"),
        ("C and numpy", "the same bytes" if np.array_equal(c, ours) else "DIFFERENT"),
    ]
    return table(("features", ""), rows)


def heard(audio: Audio, x: np.ndarray) -> np.ndarray:
    """[clips, frames]: the frames that are not silent but for the last bits of their samples."""
    frames = np.lib.stride_tricks.sliding_window_view(x.reshape(len(x), -1), audio.window, axis=1)[:, :: audio.hop]
    return frames.max(2).astype(int) - frames.min(2) > SILENT


def quiet_graph_input():
    from insitu.importers import load
    from insitu.zoo import find

    return load(find("kws-dscnn-int8")).inputs[0].type


# memory -------------------------------------------------------------------------------------------------


def memory_table() -> tuple[str, bool]:
    rows, all_same = [], True
    for scheme, prefer in (("head", "memory"), ("head", "balance"), ("last:2", "memory"), ("last:4", "memory")):
        learner = noisy_learner(scheme, board=BOARD, prefer=prefer)
        step, predict, frame, same = counted(learner, scheme)
        all_same &= same
        made = learner.deployed
        assert made is not None
        rows.append((scheme, prefer, size(made.sram_bytes), size(made.flash_bytes), f"{step:,}", f"{predict:,}",
                     f"{frame:,}", "yes" if same else "NO"))  # fmt: skip
    heads = ("trained", "prefer", "SRAM", "flash", "per step", "per prediction", "per frame", "host's bytes")
    return table(heads, rows), all_same


def counted(learner: Learner, scheme: str) -> tuple[int, int, int, bool]:
    """Instructions per step, per prediction, per frame of the features; and whether the host learns the same bytes."""
    taught, host = words("val", hum=True), learner.on("host")
    with learner.on("emulator", board=BOARD) as board:
        for device in (board, host):
            device.fit(taught.x[:STEPS], taught.y[:STEPS], epochs=1, rate=0.005)
        same = board.device.save_state() == host.device.save_state()
        counter = board.device.counter
        assert counter is not None
        _, step = counter.measure("train_step", taught.x[:1], taught.y[:1].astype(np.int32), np.float32(0))
        _, predict = counter.measure("predict", taught.x[:1])
    features = sum(count for name, count in predict.items() if name in FEATURES)
    return sum(step.values()), sum(predict.values()), features // LISTENING.frames, same


# accuracy -----------------------------------------------------------------------------------------------


def accuracy_table() -> str:
    base = quiet_learner()
    model, rows = learned_model(base), []
    for hum in (False, True):
        test = words("test", hum)
        rows.append(("in noise" if hum else "as recorded", "-", "-", right(base, test)))
        for scheme in SCHEMES:
            for each in (10, 30):
                learner = compile(model, scheme=scheme, recipe=Recipe(grad=GRADIENTS))
                taught = words("val", hum).few(each)
                learner.fit(taught.x, taught.y)
                rows.append(("", scheme, str(len(taught)), right(learner, test)))
    return table(("words", "trained", "clips", f"right, of {len(words('test'))}"), rows)


def right(learner: Learner, test: Words) -> str:
    return f"{learner.evaluate(test.x, test.y)['accuracy']:.1%}"


if __name__ == "__main__":
    print(f"seven words: {', '.join(labels())}", file=sys.stderr)
    sys.exit(main())
