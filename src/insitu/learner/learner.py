"""A model that learns: fit, evaluate, predict, add_class, save, load, on any device.

This page has a learner's verbs; owner.py says what a learner is, and the modules beside it do the work. The compiled
program computes everything. Random choices depend on (seed, epoch, sample) and nothing else, so an interrupted run
continues as if it had not been interrupted.
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

from insitu.boards import Board
from insitu.data import Samples, to_classify
from insitu.data.arguments import byte_count, number, optional
from insitu.devices.device import Device
from insitu.devices.living import living as living_on
from insitu.errors import DataError
from insitu.files import write_whole
from insitu.learner.asked import check_given, given_of
from insitu.learner.classify import Classified, classified, yes_or_no
from insitu.learner.feed import Augment, plain, predict_all, predicted
from insitu.learner.few import learn
from insitu.learner.fitting import Run, batch_of, check_run, fit
from insitu.learner.given import given_samples, kept, one_or_more, pair
from insitu.learner.history import History
from insitu.learner.measures import measured, usual_errors
from insitu.learner.moving import linked, moved, on_rung
from insitu.learner.naming import follow_board, say_left_out, say_numbers, several, take_names
from insitu.learner.owner import Owner
from insitu.learner.places import HOST, Patience
from insitu.learner.pupils import Views
from insitu.learner.rows import ready, warn_of_newcomer
from insitu.ops.update import COUNTERS
from insitu.terminal.colour import say
from insitu.terminal.interrupts import patient
from insitu.terminal.misspelled import all_spelled
from insitu.terminal.progress import Report, bar, stoppable
from insitu.training.train import has_targets

if TYPE_CHECKING:
    import insitu  # stores stand after learners: only their names are used


@all_spelled
class Learner(Owner):
    """Owns a device with a training program. Made by `insitu.compile`, or by `open_folder` from a board's folder.

    Threads may share a learner. Predictions run side by side, even while it learns: then they are those of the last
    completed epoch. Methods that change it (fit, load, add_class) wait for their turn. On a board, every call waits.
    """

    def __enter__(self) -> Learner:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Close the device; calls that need it are then a DeviceError."""
        self.close_life()
        if self._device is not None:
            self._device.close()

    def close_life(self) -> None:
        """Keep no samples any more; `keep` with the same folder goes on with them."""
        if self._life is not None:
            self._life.close()
            self._life = None

    def _save_life(self) -> None:
        """A life survives power cuts with everything that the learner has learned, also outside of bouts."""
        if self._life is not None:
            self._life.catch_up()

    def on(self, place: str | Device = HOST, *, board: str | Board | None = None, limit: int | None = None,
           timeout: float | None = None, baud: int | None = None, store: int | str | None = None,
           max_classes: int | None = None, rows: bool = False, store_rule: str | None = None,
           class_cost: float | None = None) -> Learner:  # fmt: skip
        """The same learner on another device: "host", "emulator", "qemu", "process", "wasm", "serial:PORT", or an
        open device.

        It starts with everything learned here so far. If nothing was learned yet, the device keeps its own state: a
        board that has learned is not overwritten. Afterwards the two are independent.

        board       the board to link for, if it was compiled without one
        limit       instructions that a request may take on the emulator
        timeout     seconds that it may take elsewhere
        baud        of a serial line, if it is not the one of the board's profile
        store       on a board: bytes ("64K") for samples that it keeps and learns from by itself (docs/living.md)
        max_classes with a store: how many classes it may have in the end
        store_rule  what gives way when the store is full: balanced (default), oldest, informative, typical
        class_cost  with a store: the share of the others' samples that a class that is added may take (default 0)
        rows        on a board: images or sound arrive row by row, and are never held whole (docs/streaming.md)
        """
        if rows or any(one is not None for one in (store, store_rule, max_classes, class_cost)):
            made = linked(self, board, byte_count(store, "store"), max_classes, rows, store_rule, class_cost)
            return made.on(place, limit=limit, timeout=timeout, baud=baud)
        return moved(self, place, board, Patience(limit, timeout, baud))

    def rung(self, scheme: str) -> Learner:
        """The same learner on the same device, training only one of the schemes that its program was compiled with
        (`scheme="head+ladder:22"`): `learner.on("emulator").rung("head").fit(x, y)`. The others go on from there.
        """
        return on_rung(self, scheme)

    def info(self) -> dict[str, int]:
        """Bytes: arena_bytes, arena_lower_bound_bytes, state_bytes, const_bytes."""
        return self.device.info()

    # learning ---------------------------------------------------------------------------------

    def fit(self, x: Any, y: Any = None, *, epochs: int | None = None, rate: float | None = None,
            head_rate: float | None = None, batch: int | None = None, schedule: str | None = None,
            warmup: float | None = None, average: int = 0, augment: Augment | None = None, views: int | None = None,
            cache: bool | None = None, validation: Any = None, test: Any = None, seed: int = 0, start_epoch: int = 0,
            stop_epoch: int | None = None, threads: int | None = None, progress: Report | None = None,
            batch_size: int | None = None, effort: float = 1.0, early: bool = False) -> History:  # fmt: skip
        """Train on samples x with labels y (targets, for losses that take them; x itself if y is None).

        What is not given is found (docs/defaults.md): the rates are measured and tried with some samples held out, the
        epochs follow from the number of samples. If training does not help, a warning says so and nothing changes.

        rate        the largest learning rate; if given, nothing is tried, and every sample is learned from
        head_rate   another rate for the head
        batch       samples per update; also called batch_size
        schedule    "cosine", or "constant"; a rate from a compiled Keras model is constant, without warm-up
        warmup      in epochs; None: a tenth of them, at most one
        average     the result is the mean of the states after the last so many epochs; pays with a constant rate
        validation  samples to choose by instead of a part of x; `test` samples are only measured after each epoch
        effort      work to find what is not given, in multiples of the usual: with 1, fit takes about a minute, or
                    twice the time of the training if that is more
        early       end before `epochs` if nothing is left to learn: a classifier's loss was below 0.01 for every batch
                    in three epochs, one after the other
        augment     `augment(x, rng)` returns a changed copy of a batch of samples. With `views=k` it is applied k times
                    to each sample beforehand, so that the frozen layers' outputs can be kept; else in each epoch

        `fit(epochs=9, rate=r, stop_epoch=4)`, then `fit(epochs=9, rate=r, start_epoch=4)` is the same as
        `fit(epochs=9, rate=r)`. Ctrl-C finishes the updates at hand: the learner keeps them, and KeyboardInterrupt is
        raised. A second Ctrl-C does not wait.
        """
        batch = batch_of(self, batch if batch_size is None else batch_size)
        given = given_of(self.recipe, epochs, rate, head_rate, warmup, batch, schedule, seed, average, effort)
        check_run(start_epoch, stop_epoch, threads, views, augment=augment, progress=progress)
        check_given(given, start_epoch)
        data = self.samples(x, y, naming=True)
        data = take_names(self, data) if rate is not None or several(data) else data  # one class alone may be a mistake
        held_out, tests = (None if v is None else self.samples(*pair(v), part="test") for v in (validation, test))
        run = Run(Views(augment, views, cache, seed), start_epoch, stop_epoch, threads, held_out, tests,
                  progress is not None, early)  # fmt: skip
        with self._changing, bar(progress) as shown, patient() as check:
            history = fit(self, data, given, run, stoppable(shown, check))
            self._save_life()
            return history

    def partial_fit(self, x: Any, y: Any=None, *, rate: float | None = None, head_rate: float | None = None,
                    progress: Report | None = None) -> History:  # fmt: skip
        """Learn from one or a few samples, in one pass: no warm-up, no trials, nothing held out. Also called `learn`.

        The rates are derived from the samples, a third of those that `fit` begins with, and the learner remembers what
        it measured: many calls with few samples learn like one pass over all of them. A class may be given by its name.

        rate, head_rate     instead of the derived ones; a warning says if they are far above those and did harm
        """
        for value, name in ((rate, "the learning rate"), (head_rate, "the head's learning rate")):
            if value is not None:
                number(value, name)
        y = one_or_more(x, y, self.graphs["predict"], self.recipe.loss)
        data = take_names(self, self.samples(x, y, naming=True))
        with self._changing, bar(progress) as shown, patient() as check:
            ready(self, data)
            warn_of_newcomer(self, data)
            given = self.recipe.rate if rate is None else rate
            history = learn(self, data, given, head_rate, stoppable(shown, check))
            self._save_life()
            return history

    def learn(self, x: Any, y: Any = None, *, rate: float | None = None, head_rate: float | None = None,
              progress: Report | None = None) -> History:  # fmt: skip
        """The same as `partial_fit`."""
        return self.partial_fit(x, y, rate=rate, head_rate=head_rate, progress=progress)

    # using ------------------------------------------------------------------------------------

    def predict(self, *x: Any) -> Any:
        """The model's outputs (logits) for these samples, from the generated C: [samples, ...], also of one sample."""
        return predicted(self.device, self.graphs["predict"], x)

    def classify(self, x: Any, *, top: int | None = None) -> list[Classified]:
        """For each sample its classes with their probabilities, the likeliest first; `top` of them, or all."""
        names, graph = self.names, self.graphs["predict"]
        if has_targets(self.recipe):
            names = yes_or_no(self.recipe.loss, graph)
        top, inputs = optional(top, "top", 1), to_classify(x, graph)
        return classified(graph, predict_all(self.device, plain(inputs))[0][:, 0], names, top)

    def evaluate(self, x: Any, y: Any = None) -> dict[str, float]:
        """Accuracy over labelled samples. With targets, `error`: the mean squared error over all samples and targets,
        whatever their units. `errors` has them one by one."""
        data = self.samples(x, y, part="test")
        with bar() as report:
            return measured(self.device, self.recipe.loss, data, report)

    def errors(self, x: Any, y: Any = None) -> dict[str, float]:
        """The usual error of each target, in its own unit: target -> root of the mean squared error."""
        data = self.samples(x, y, part="test")
        with bar() as report:
            return usual_errors(self.device, self.recipe.loss, data, self.names, report)

    def counters(self) -> dict[str, int]:
        """How often an update was skipped (not finite), clipped, or saturated a weight."""
        found = self.device.counters()
        return {name: found[name] for name in COUNTERS}

    def add_class(self, name: str = "") -> int:
        """Add one class to the head, keeping everything learned; returns the new class's number.

        With room for it (`compile(..., max_classes=N)`), nothing is compiled again: the class takes the next free row,
        and takes part from its first samples on. Otherwise the program is made again; for a board, it is linked again,
        and if it no longer fits, this is a BudgetError, and nothing has changed. A board that lives takes it by itself.
        """
        from insitu.learner.growing import add_class

        with self._changing:
            lives = self._life or living_on(self.device)
            return lives.add_class(name) if lives else add_class(self, name)

    # a life of its own ------------------------------------------------------------------------

    def keep(self, path: str | Path | None = None, *, quota: int | str = "64M", count: int | None = None,
             rule: str = "typical", key: bytes | None = None, raw: bool = False, when: Any = None,
             watts: float = 4.0, covariance: bool = False, cost: float = 0.0) -> insitu.Life:  # fmt: skip
        """Keep samples from now on, to learn from them a little at a time: in a folder, or in memory without one.

        If the folder has a life already, it goes on: the learner takes over its state, classes and samples. What is
        kept are outputs of the frozen layers, not the samples themselves. docs/continual.md has examples.

        quota       the largest size of the store's file; `count` is the largest number of samples
        rule        what gives way when it is full: typical (all classes alike; of a class, what it can spare), balanced
                    (all classes alike; of a class, by chance), oldest, informative
        key         16, 24 or 32 bytes: samples and checkpoints are encrypted
        raw         keep the samples themselves as well
        when        may it learn now? A function, or insitu.store.power.When(charging=True, hours=(22, 6))
        watts       what this machine takes while it computes, to estimate energy
        covariance  classes are learned from their means alone, without bouts: follow how features scatter around them
        cost        the share of the others' kept samples that a class that was added may take (0.02: two of a hundred),
                    to be recognised more often
        """
        import insitu  # stores stand after learners, so they are asked for by their public name

        with self._changing:
            if self._life is not None:
                raise DataError("this learner has a life already", hint="close_life() first")
            made = self._life = insitu.Life(self, path, quota=quota, count=count, rule=rule, key=key, raw=raw,
                                            when=when, watts=watts, covariance=covariance, cost=cost)  # fmt: skip
            return made

    @property
    def life(self) -> insitu.Life | insitu.BoardLife:
        """The samples it keeps and what it learned from them; in memory if `keep` was not called, on a board that was
        compiled with a store there."""
        if self._life is None and (board := living_on(self.device)):
            import insitu

            self._life = insitu.BoardLife(self, board)
        return self._life or self.keep()

    def observe(self, x: Any, label: Any = None) -> Any:
        """Keep what the device sees, with a label or without; returns the id of the sample, or a list of ids."""
        if self._life is None and living_on(self.device) is None:
            say("note: samples are kept in memory, and gone when this process ends; keep(FOLDER) before keeps them")
        return self.life.observe(x, label)

    def label(self, id: int, label: Any) -> bool:
        """Tell the class of an observed sample, by name or number; returns whether the sample is still kept."""
        return self.life.label(id, label)

    def asks(self, n: int = 1) -> list[int]:
        """The ids of the samples whose label would help most."""
        return self.life.asks(n)

    def rehearse(self, steps: int | None = None, *, seconds: float | None = None, energy_mj: float | None = None,
                 instructions: int | None = None, rate: float | None = None,
                 partial: bool = False) -> insitu.Rehearsed:  # fmt: skip
        """One bout of learning from the kept samples, new and old; it counts only if the guards are not worse off.

        A bout that is not finished within `seconds` or `energy_mj` (an estimate) goes on with the next call, with the
        same bytes as without the pause. On a board that keeps its own samples, `energy_mj` and `instructions` decide
        how many steps the bout has (an estimate). What is not given is found: the rates as in `partial_fit`, the steps
        from the number of samples. With `partial`, it also learns if some class has no samples, and may unlearn it.
        """
        return self.life.rehearse(steps, seconds, energy_mj, rate, partial, instructions)

    def drift(self) -> float:
        """How far the samples of now are from the first ones; from 0.5 on, labels for them would help."""
        return self.life.drift()

    def statistics(self) -> dict[str, Any]:
        """Samples by class, guards, bouts, rollbacks, drift, bytes."""
        return self.life.statistics()

    def forget(self, name: str | int) -> int:
        """Remove a class, its samples and everything known about it; returns how many samples were dropped."""
        return self.life.forget(name)

    # keeping ----------------------------------------------------------------------------------

    def save(self, path: str | Path) -> Path:
        """Write a file that appears complete or not at all.

        "gesture.insitu" is the whole learner: `insitu.open` continues with it anywhere. "state.bin" is only what was
        learned, for `load` and for a board with exactly this program.
        """
        from insitu.learner.file import save_learner
        from insitu.learner.named_state import with_names

        if kept(path) == "learner":
            return save_learner(self, path)
        return write_whole(path, with_names(self.device.save_state(), self.names))

    def __reduce__(self) -> tuple[Any, ...]:
        """A pickle or a copy is an independent learner on this machine."""
        from insitu.learner.file import learner_bytes, open_learner

        return open_learner, (learner_bytes(self),)

    def load(self, path: str | Path) -> None:
        """Load a saved state, or that of a saved learner. A wrong or damaged file is an error and changes nothing.

        So is a state of other classes, or of the same in another order; a learner without names takes over its.
        """
        from insitu.learner.file import state_in
        from insitu.learner.named_state import agreed

        data, saved = state_in(path)
        names = agreed(self.names, saved, self.classes, str(path))
        try:
            with self._changing:
                self.device.load_state(data)
                self.rename(names)
                self._save_life()
        except DataError as e:
            from insitu.learner.origin import refusal

            raise refusal(self, data, e, path) from e

    def write(self, folder: str | Path, *, measure: bool = False) -> list[Path]:
        """Write the C program to a folder, with firmware if it was compiled for a board; returns the files.

        It starts from what was learned. Nothing is planned again; for a board, it is linked again. With `measure`, its
        README says how many instructions each function takes, and what a lower peak costs.
        """
        from insitu.learner.learned import measured_deployment, write

        with self._changing:
            return write(self, folder, measured_deployment(self) if measure else None)

    def report(self, path: str | Path = "report.html", *, test: Any = None) -> Path:
        """Write one self-contained HTML page: does it fit, how accurate is it, how fast, and what to do next.

        It can be written at any time, and shows the last `fit` if there was one. `test` are labelled samples (x, y) to
        measure it on; without them, the test samples of that fit. For a board, instructions are counted if possible.
        """
        import insitu  # reports stand after learners, so they are asked for by their public name

        with self._changing:
            return insitu.reports.write_report(self, path, test=test)

    def export(self, path: str | Path, to: str | None = None, **options: Any) -> Any:
        """Write what was learned for another framework: by suffix .tflite, .mlmodel, .onnx or .pt, or as `to` says.

        `to` is litert, litert-train, coreml, onnx or torch. With precision="float" the file of an int8 learner is
        float. The result says what was written, and how equal it is. docs/exports.md has examples.
        """
        import insitu  # exporters stand after learners, so they are asked for by their public name

        written = insitu.export.export(self, path, to=to, **options)
        for words in written.notes:
            say(f"note: {words}")
        return written

    def instructions(self) -> dict[str, int]:
        """Function -> instructions of one call, counted on an emulated core of the board it was compiled for."""
        from insitu.learner.learned import measured_deployment

        with self._changing:
            return dict(measured_deployment(self, cost=False).counts or {})

    # checking ---------------------------------------------------------------------------------

    def samples(self, x: Any, y: Any = None, part: str = "train", naming: bool = False) -> Samples:
        """Checked samples with labels or targets in the program's own types; labels are matched by name."""
        follow_board(self)
        naming = naming and living_on(self.device) is None  # a board takes new classes by add_class alone
        found = given_samples(self.graphs["predict"], self.recipe.loss, x, y, part, naming)
        say_numbers(self, found)
        say_left_out(x, found)
        return found
