"""The page about a learner: before and after training, with and without a board, for any kind of output."""

from __future__ import annotations

import os
import re
from dataclasses import replace
from functools import cache
from pathlib import Path

import numpy as np
import pytest

import insitu
from insitu.boards import find_board
from insitu.cli import main
from insitu.cli.run import tests as commands_to_test
from insitu.demo import TARGET
from insitu.deploy import Limits
from insitu.errors import DataError
from insitu.learner import History
from insitu.learner.relinked import relinked
from insitu.reports.html import page
from insitu.reports.html_answers import milliseconds, unbroken
from insitu.reports.html_charts import loss_curve, shortened
from insitu.reports.html_data import Group, Memory, Piece, Score
from insitu.reports.needs import Needs, large_boards, named_costs, room
from insitu.reports.outcome import Outcome, weakest
from insitu.reports.page import About, first_board, outcome, report_of
from insitu.reports.page import test_advice as words_on_tests
from insitu.terminal.wording import in_shell
from tests.learners import data, imported, learner, mlp
from tests.reports.test_html import Page, needs_browser, shown_by_chromium

QUESTIONS = ("Does it fit?", "How accurate is it?", "How fast is it?", "What to do next?")


@cache
def taught(**options) -> insitu.Learner:
    made = learner(**options)
    x, y = data()
    made.fit(x, y, epochs=3, rate=0.05, test=(x, y))
    return made


def written(made: insitu.Learner, folder: Path, **options) -> str:
    return made.report(folder / "report.html", **options).read_text()


def test_a_learner_that_has_learned_nothing_has_a_page_that_says_what_to_do(tmp_path):
    text = written(learner(), tmp_path)
    assert [q for q in QUESTIONS if q not in text] == []
    assert "Not measured" in text and "learner.fit(x, y)" in text and "What it learned" not in text


def test_what_was_taught_before_it_was_saved_needs_no_teaching(tmp_path):
    path = taught().save(tmp_path / "taught.insitu")
    assert "Teach it" in written(insitu.open(learner().save(tmp_path / "fresh.insitu")), tmp_path)
    opened = insitu.open(path)
    assert opened.has_learned and "Teach it" not in written(opened, tmp_path)
    with opened.on("process") as moved:
        assert moved.has_learned
    linked = relinked(opened, Limits(board=find_board("nrf52840")))
    assert linked.has_learned and "Teach it" not in written(linked, tmp_path)


def test_after_a_fit_the_page_shows_its_curves_and_the_accuracy_of_its_test_samples(tmp_path):
    made, (x, y) = taught(), data()
    found = Page(written(made, tmp_path))
    assert found.numbers["score-0-after"] == made.evaluate(x, y)["accuracy"]
    assert len(report_of(made, made.history).losses) == 90
    assert len(found.cells["groups"]) == 3 * len(np.unique(y))


def test_few_test_samples_are_told_in_points_or_as_a_share_of_the_error():
    of = {m: words_on_tests((Score("test samples", None, 0.5, 50, m),)) for m in ("accuracy", "error")}
    assert of["accuracy"] == "Test on more samples: 50 are few, one sample is 2.0 points"
    assert of["error"] == "Test on more samples: 50 are few, the usual error may be 10% off"


def test_the_accuracy_of_each_class_is_scikit_learns_recall():
    from sklearn.metrics import confusion_matrix, recall_score

    made, (x, y) = taught(), data(seed=3)
    found = outcome(made, made.samples(x, y))
    guessed = made.predict(x).argmax(1)
    recall = recall_score(y, guessed, average=None, labels=range(4))
    assert {g.name: pytest.approx(g.after) for g in found.groups()} == {str(k): recall[k] for k in range(4)}
    matrix = found.confusion()
    assert matrix is not None
    assert np.array_equal(matrix.after, confusion_matrix(y, guessed, labels=range(4))) and matrix.before == ()


def test_the_state_and_the_history_are_not_changed_by_a_report(tmp_path):
    made = taught()
    before, history = made.device.save_state(), made.history
    written(made, tmp_path)
    assert made.device.save_state() == before and made.history is history


def test_a_regression_is_measured_by_its_error_output_by_output(tmp_path):
    x, _ = data()
    made = insitu.compile(imported(), precision="float", scheme="full", recipe=insitu.Recipe(loss="mse"))
    made.fit(x, x[:, :4], epochs=2, rate=0.01)
    text = written(made, tmp_path, test=(x, x[:, :4]))
    found = Page(text)
    error = ((made.predict(x) - x[:, :4]) ** 2).mean()
    assert found.numbers["score-0-after"] == pytest.approx(error) and "output 3" in text
    assert "confusion" not in text.split("</style>")[1]
    assert f"{error**0.5:.4g}" in text and "usual error" in text and "of the variance" in text
    explained = 1 - error / x[:, :4].var()
    assert f"explains {explained:.1%} of the variance" in text


def test_short_headings_of_classes_are_all_different():
    assert shortened(["approve", "refer", "refuse"]) == ["app", "refer", "refu"]
    assert shortened(["red car", "red cat", "ref", "refer"]) == ["red car", "red cat", "ref", "refer"]
    assert shortened(["flower11", "flower23"]) == ["flower11", "flower23"]


def test_a_page_names_the_files_that_were_written():
    about = About("loans", "loans.insitu", "build")
    made = insitu.compile(imported(), precision="float", scheme="head", board="nrf52840")
    made.fit(*data(), epochs=1, rate=0.05)
    with in_shell():
        found = report_of(made, made.history, about=about)
        unknown = report_of(made, made.history)
    assert found.title == "loans" and "insitu run build" in found.next[-1] and "insitu compile" not in found.next[-1]
    assert "Write its folder: insitu compile NAME.insitu --board nrf52840 -o build" in unknown.next[-1]


def test_one_output_is_one_output():
    made = learner(module=mlp(classes=1), classes=None, head_init=None, recipe=insitu.Recipe(loss="mse"))
    assert report_of(made).summary.startswith("1 output; ")


def test_several_yes_or_no_outputs_have_an_accuracy_each():
    x, _ = data()
    y = (x[:, :2] > 0).astype(np.float32)
    found = Outcome("t", "binary_cross_entropy", y, np.where(x[:, :2] > 0, 1.0, -1.0) * [1, -1])
    assert [(g.name, g.after) for g in found.groups()] == [("output 1", 0.0), ("output 0", 1.0)]
    assert found.confusion() is None and found.mistakes() == ()


def test_names_of_classes_cannot_inject_markup(tmp_path):
    names = ["<script>alert(1)</script>", "a & b", '"quoted"', "<i>"]
    made = learner(classes=names)
    x, y = data()
    made.fit(x, [names[k] for k in y], epochs=1, rate=0.05)
    text = written(made, tmp_path, test=(x, y))
    assert "<script>alert" not in text and "<i>" not in text and "&lt;script&gt;alert(1)&lt;/script&gt;" in text


def test_a_thousand_classes_make_a_small_page(tmp_path):
    rng = np.random.default_rng(0)
    labels, outputs = rng.integers(0, 1000, 5000), rng.normal(size=(5000, 1000)).astype(np.float32)
    found = Outcome("t", "cross_entropy", labels, outputs)
    made = taught()
    text = page(report_of(made, made.history, found))
    assert found.confusion() is None and len(text) < 120_000
    assert "the 12 worst of" in text and len(found.mistakes()) == 10


def test_one_class_makes_a_page(tmp_path):
    made = learner(classes=1)
    text = written(made, tmp_path, test=(data()[0], np.zeros(30, int)))
    assert "100.0%" in text and 'class="confusion"' not in text


def test_losses_that_are_not_finite_are_left_out():
    text = loss_curve([1.0, float("nan"), 0.5, float("inf")] * 8, 4)
    assert "nan" not in text and "inf" not in text and "16 losses were not finite" in text
    assert "No loss was finite" in loss_curve([float("nan")], 1)


def test_a_long_training_does_not_make_a_long_page():
    assert len(loss_curve([1.0] * 100_000, 1000)) < 40_000


def test_a_weak_class_is_named_and_an_even_result_is_not():
    groups = (Group("rose", 20, None, 0.4), Group("lily", 20, None, 0.95))
    assert weakest(groups, Score("t", None, 0.7, 40)) == groups[0]
    assert weakest(groups[1:] * 2, Score("t", None, 0.95, 40)) is None


def test_warnings_of_a_training_come_first():
    made = taught()
    noted = replace(made.history or History(), notes=["training did not help"])
    text = page(report_of(made, noted))
    assert text.index("training did not help") < text.index("Put it on a board")


def needing(sram: int, flash: int = 1000) -> Needs:
    return Needs(Memory((Piece("arena", sram),)), Memory((Piece("constants", flash),)))


def test_a_program_too_large_for_every_board_is_not_to_be_put_on_one():
    large, middle = needing(1000, flash=10**9), needing(290_000)
    assert room(large).startswith("On none of") and "Make it smaller" in first_board(large)
    assert 'board="nrf52840"' in first_board(needing(1000))
    with in_shell():
        assert f"--board {large_boards(middle)[0].name} " in first_board(middle), "one that is large enough"


def test_sram_planned_for_this_machine_does_not_rule_out_a_board():
    assert room(needing(10**9)) == "Not planned for a board"
    assert "See what fits" in first_board(needing(10**9)) and 'prefer="memory"' in first_board(needing(10**9))
    assert "; insitu teach t --again chooses" in first_board(needing(10**9), again="insitu teach t --again")


@pytest.mark.parametrize(
    ("ms", "words"),
    [(0.0123, "0.0123 ms"), (1.3, "1.3 ms"), (1300, "1,300 ms"), (9_876, "9,876 ms"), (65_432, "65.4 s")],
)
def test_times_have_no_exponents(ms, words):
    assert milliseconds(ms) == words


def test_names_alone_tell_passes_and_layers_apart():
    found = named_costs({"conv": 5, "conv.grad": 7, "conv.weight.grad": 2, "conv.weight.new.0": 3})
    assert [(c.layer, c.forward, c.backward, c.update) for c in found] == [("conv", 5, 9, 3)]


@pytest.mark.parametrize(("name", "words"), [("report.pdf", "HTML page"), ("none/report.html", "no folder")])
def test_a_page_that_cannot_be_written_is_refused_before_anything_is_measured(tmp_path, name, words):
    with pytest.raises(DataError, match=words):
        learner().report(tmp_path / name)


# on a board and from the command line -----------------------------------------------------------


@pytest.fixture(scope="module")
def folder(tmp_path_factory) -> Path:
    """Samples, a board's folder, and a report on it."""
    made = tmp_path_factory.mktemp("board")
    rng = np.random.default_rng(0)
    x, y = rng.normal(size=(24, 1, 8, 8)).astype(np.float32), rng.integers(0, 3, 24)
    np.savez(made / "d.npz", x_train=x, y_train=y, x_test=x[:9], y_test=y[:9])
    words = ["compile", str(TARGET), "--data", str(made / "d.npz"), "--classes", "3", "--board", "nrf52840"]
    assert main([*words, "-o", str(made / "build"), "--report", str(made / "compiled.html")]) == 0
    return made


def test_a_board_counts_instructions_and_says_that_it_fits(folder):
    text = (folder / "compiled.html").read_text()
    found = Page(text).numbers
    assert re.search(r"good.*?Does it fit\?</h2><div class=\"value\">Yes", text)
    assert found["step-instructions"] > found["predict-instructions"] > 10_000 and found["step-ms"] > 0
    assert "arena-map" in text and "Where the work goes" in text


def test_run_writes_a_page_with_what_the_board_learned(folder, capsys):
    words = ["run", str(folder / "build"), "--data", str(folder / "d.npz"), "--steps", "6", "--rate", "0.05", "--json"]
    assert main([*words, "--report", str(folder / "run.html")]) == 0
    said = capsys.readouterr().out
    found = Page((folder / "run.html").read_text())
    assert f'"accuracy_after": {found.numbers["score-0-after"]}' in said
    assert f'"train_step_instructions": {int(found.numbers["step-instructions"])}' in said
    assert "confusion-before" in found.cells and "confusion-after" in found.cells


def test_train_writes_a_page_with_both_accuracies(folder, capsys):
    words = ["train", str(TARGET), "--data", str(folder / "d.npz"), "--classes", "3", "--epochs", "2", "--rate", "0.01"]
    assert main([*words, "--json", "--report", str(folder / "train.html")]) == 0
    found = Page((folder / "train.html").read_text()).numbers
    assert f'"before": {found["score-0-before"]}' in capsys.readouterr().out and "score-0-after" in found


@pytest.mark.parametrize("verb", ["train", "compile", "run"])
def test_a_report_that_cannot_be_written_is_refused_before_the_work(verb, tmp_path, capsys):
    os.mkfifo(tmp_path / "pipe.html")
    for name, words in (("pipe.html", "pipe or socket"), ("r.txt", "HTML page"), ("no/r.html", "no folder")):
        with pytest.raises(SystemExit):
            main([verb, "m", *(["--data", "d"] if verb == "train" else []), "--report", str(tmp_path / name)])
        assert words in capsys.readouterr().err


@needs_browser
def test_a_browser_shows_all_four_answers_on_the_first_screen_of_a_telephone(folder, tmp_path):
    """At a width of 390 pixels, all four begin within the first 844."""
    text = (folder / "compiled.html").read_text()
    script = (
        "var c = document.querySelectorAll('.answer'); document.documentElement.setAttribute('data-begins',"
        "Array.from(c).map(function (a) { return Math.round(a.getBoundingClientRect().top); }).join(' '));"
    )
    from html import escape

    (tmp_path / "inner.html").write_text(text.replace("</body>", f"<script>{script}</script></body>"))
    frame = escape((tmp_path / "inner.html").read_text())
    (tmp_path / "outer.html").write_text(
        f'<!doctype html><iframe style="width:390px;height:844px;border:0" srcdoc="{frame}"></iframe><script>'
        "document.querySelector('iframe').onload = function (e) { document.documentElement.setAttribute('data-tops',"
        "e.target.contentDocument.documentElement.getAttribute('data-begins')); };</script>"
    )
    shown, _ = shown_by_chromium(tmp_path / "outer.html")
    tops = [int(n) for n in re.findall(r'data-tops="([\d ]+)"', shown)[0].split()]
    assert len(tops) == 4 and max(tops) < 844


def test_a_page_says_how_to_measure_by_commands_that_exist():
    made = insitu.compile(imported(), precision="float", scheme="head")
    with in_shell():
        assert "insitu predict a.insitu --data FILE" in report_of(made, about=About(file="a.insitu")).next[1]
        assert "--split 0.8" in report_of(made, about=About(tests="--test FILE or --split 0.8")).next[1]
    assert commands_to_test(Path("build"), Path("b.insitu")) == "insitu predict b.insitu --data FILE"
    alone = commands_to_test(Path("build"), None)
    assert alone.startswith("insitu run build --data FILE --save NAME.insitu, then insitu predict NAME.insitu")


def test_no_line_of_advice_ends_within_an_option():
    assert unbroken("a-b <c>: -o build --split 0.8") == (
        'a-b &lt;c&gt;: <span class="whole">-o</span> build <span class="whole">--split</span> 0.8'
    )


def test_updates_are_counted_in_words_that_agree(tmp_path):
    made = taught()
    assert dict(report_of(made, made.history).facts)["updates"].endswith(", one per sample")
