"""The page about a training run: self-contained, and a browser shows exactly what the data class contains."""

import re
import shutil
import subprocess
from dataclasses import replace
from html import escape
from html.parser import HTMLParser

import pytest

from insitu.boards import find_board
from insitu.demo import TARGET
from insitu.deploy.lowering import Counted, LoweringCost
from insitu.errors import DataError
from insitu.importers import load
from insitu.quantizer import fold
from insitu.reports.html import page, write_page
from insitu.reports.html_charts import kind
from insitu.reports.html_costs import REST, layer_costs
from insitu.reports.html_data import LayerCost, Memory, Piece, RunReport, Score, confusion, estimate
from insitu.reports.memory import Block, MemoryMap
from insitu.schemes.layers import layers
from insitu.schemes.scheme import read_scheme
from insitu.training.head import replace_head
from insitu.training.train import Recipe, train_graphs

BROWSERS = (shutil.which(name) for name in ("chromium", "chromium-browser", "google-chrome"))
BROWSER = next(filter(None, BROWSERS), None)
needs_browser = pytest.mark.skipif(BROWSER is None, reason="no Chromium on the PATH")

ARENA = MemoryMap(
    steps=("conv", "loss", "conv.grad", "conv.weight.grad", "conv.weight.new.0"),
    blocks=(
        Block(("conv",), "s8[1x4x4x8]", 0, 128, 0, 3),
        Block(("conv.mask",), "u8[16]", 128, 16, 0, 2),
        Block(("loss",), "f32[]", 144, 4, 1, 4),
        Block(("scratch 2.0",), "", 448, 64, 2, 2),
        Block(("conv.grad",), "f32[1x4x4x8]", 148, 300, 2, 3),
        Block(("conv.weight.grad",), "f32[72]", 512, 288, 3, 4),
    ),
    arena_bytes=800, lower_bound_bytes=720, peak_step=3,
)  # fmt: skip


@pytest.fixture
def report() -> RunReport:
    return RunReport(
        title='A <model> & its "page"', summary="It learns.", device="an emulated core",
        scores=(Score("own", 0.8125, 0.9375, 32), Score("others", 0.99, 0.97, 1000)),
        sram=Memory((Piece("arena", 800), Piece("state", 1234, "what lasts"), Piece("nothing", 0)), 262_144),
        flash=Memory((Piece("kernels", 20_000), Piece("constants", 3_001)), 1_048_576, "all of it"),
        arena=ARENA, costs=(LayerCost("conv", 1000, 2000, 300), LayerCost(REST, 5, 6, 0)), unit="instructions",
        step_instructions=3311, predict_instructions=1005, estimate=estimate(3311, find_board("nrf52840")),
        losses=tuple(1 / (1 + i) for i in range(24)), steps_an_epoch=8,
        confusion=confusion(("yes", "no"), [0, 0, 1, 1], [0, 1, 0, 1], [0, 0, 1, 0]), facts=(("seed", "0"),),
    )  # fmt: skip


class Page(HTMLParser):
    """Numbers by id, table cells by id, and attributes that would fetch something."""

    def __init__(self, text: str):
        super().__init__()
        self.numbers, self.cells, self.fetched, self.ready = {}, {}, [], False
        self._table, self._cell = "", False
        self.feed(text)

    def handle_starttag(self, tag, attrs):
        found = dict(attrs)
        self.ready |= tag == "html" and found.get("data-ready") == "yes"
        self.fetched += [v for k, v in attrs if k in ("src", "href") and not v.startswith("data:")]
        if tag == "data":
            self.numbers[found["id"]] = float(found["value"])
        if tag == "table":
            self._table = found.get("id", "")
        self._cell = tag == "td"

    def handle_data(self, data):
        if self._cell and self._table:
            self.cells.setdefault(self._table, []).append(data)
        self._cell = False


def shown_by_chromium(path) -> tuple[str, list[str]]:
    """The DOM after scripts ran, and the output on the console."""
    command = [BROWSER, "--headless", "--no-sandbox", "--disable-gpu", "--enable-logging=stderr", "--v=0", "--dump-dom"]
    done = subprocess.run([*command, path.as_uri()], capture_output=True, text=True, timeout=120, check=True)
    return done.stdout, re.findall(r"CONSOLE[^\n]*", done.stderr)


def test_nothing_is_fetched_and_text_is_escaped(report):
    text = page(report)
    assert not Page(text).fetched and "@import" not in text and "url(" not in text
    assert "<model>" not in text and "A &lt;model&gt; &amp; its &quot;page&quot;" in text


@needs_browser
def test_a_browser_shows_the_numbers_of_the_data_class_without_a_complaint(report, tmp_path):
    dom, said = shown_by_chromium(write_page(report, tmp_path / "page.html"))
    found = Page(dom)
    assert found.ready and not said
    assert found.numbers == {
        "score-0-before": 0.8125, "score-0-after": 0.9375, "score-1-before": 0.99, "score-1-after": 0.97,
        "sram-bytes": 2034, "flash-bytes": 23_001, "step-instructions": 3311, "predict-instructions": 1005,
        "step-ms": report.estimate.step_ms, "step-mj": report.estimate.step_mj,
    }  # fmt: skip
    assert found.cells == {"confusion-before": ["1", "1", "1", "1"], "confusion-after": ["2", "0", "1", "1"]}
    assert dom.count('class="block"') == len(ARENA.blocks)


@needs_browser
def test_an_error_of_a_script_would_be_seen(tmp_path):
    (tmp_path / "bad.html").write_text("<!doctype html><script>nothing.here()</script>")
    assert shown_by_chromium(tmp_path / "bad.html")[1]


# a frame as wide as a phone: a headless browser has windows of at least 500 pixels
NARROW = """<!doctype html><iframe style="width:360px;height:2000px;border:0" srcdoc="{page}"></iframe><script>
document.querySelector("iframe").onload = function (event) {{
  var inside = event.target.contentDocument, root = document.documentElement;
  var all = Array.from(inside.querySelectorAll(".values td, .changes td"));
  var cells = all.filter(function (c) {{ return c.textContent; }});
  var tall = cells.filter(function (c) {{ return c.getBoundingClientRect().height > 40; }});
  root.setAttribute("data-cells", cells.length);
  root.setAttribute("data-broken", tall.map(function (c) {{ return c.textContent; }}).join(" "));
  root.setAttribute("data-cut", inside.documentElement.scrollWidth > 360);
}};
</script>"""


@needs_browser
def test_on_a_telephone_no_name_or_type_breaks_and_nothing_is_cut_off(report, tmp_path):
    (tmp_path / "narrow.html").write_text(NARROW.format(page=escape(page(replace(report, lowering=COST.to_json())))))
    shown, _ = shown_by_chromium(tmp_path / "narrow.html")
    (cells, broken, cut) = re.findall(r'data-(?:cells|broken|cut)="([^"]*)"', shown.partition("<head>")[0])
    assert int(cells) > 6 and broken == "" and cut == "false"


LONG = "blocks.10.pointwise1.grad.0"
COST = LoweringCost(
    "1 stripes, 1 less scratch",
    Counted(800, 5000, 6000, {"train_step": {LONG: 2_483_773, "conv": 1_311}, "predict": {"conv": 1005}}),
    Counted(1900, 6100, 6000, {"train_step": {LONG: 607_505, "conv": 1_000}, "predict": {"conv": 1000}}),
    {LONG: "less scratch", "conv": "stripes"}, "nrf52840", 262_144,
)  # fmt: skip


def test_what_a_smaller_arena_cost_is_shown_with_both_counts(report):
    text = page(replace(report, lowering=COST.to_json()))
    found = Page(text).numbers
    assert (found["without-arena"], found["without-train-step"], found["without-predict"]) == (1900, 608_505, 1000)
    assert (found["lowered-arena"], found["lowered-train-step"], found["lowered-predict"]) == (800, 2_485_084, 1005)
    assert "less scratch +1,876,268, stripes +311" in text and COST.summary in text
    assert replace(report, lowering=COST.to_json()).to_json()["lowering"]["summary"] == COST.summary


def test_a_run_with_nothing_lowered_says_nothing_of_it(report):
    assert "smaller arena" not in page(report)


def test_a_run_without_counts_shows_no_instructions_and_says_so(report):
    plain = replace(report, step_instructions=None, predict_instructions=None, estimate=None, unit="multiply-adds")
    text = page(plain)
    assert "No instructions were counted" in text and "estimated" not in text
    assert "step-instructions" not in Page(text).numbers


def test_a_run_with_nothing_to_draw_still_is_a_page(report):
    empty = MemoryMap((), (), 0, 0, 0)
    bare = replace(report, arena=empty, costs=(), losses=(), confusion=None, facts=(), estimate=None)
    assert "What it learned" not in page(bare) and "</html>" in page(bare)


def test_parts_of_a_memory_add_up_to_the_bar(report):
    bar = page(report).split("<h3>SRAM</h3>")[1].split("</div>")[0]
    widths = [float(w) for w in re.findall(r"width:([\d.]+)%", bar)]
    assert len(widths) == 2 and sum(widths) == pytest.approx(100, abs=0.02)


def test_blocks_are_told_apart_by_what_they_are_for():
    found = [kind(b) for b in ARENA.blocks]
    assert found == ["values", "masks", "values", "scratch", "gradients", "weight gradients"]


def test_costs_go_to_the_layer_whose_weight_is_used():
    forward = replace_head(fold(load(TARGET)), 10)
    graphs = train_graphs(forward, read_scheme("last:1", [x for x in layers(forward) if x.name != "head"]), Recipe())
    names = tuple(layer.name for layer in layers(graphs["predict"]))
    costs = {
        c.layer: c for c in layer_costs(graphs["train_step"], {n.name: 1 for n in graphs["train_step"].nodes}, names)
    }
    assert sum(c.total for c in costs.values()) == len(graphs["train_step"].nodes)
    assert costs["stem.0"].backward == costs["stem.0"].update == 0 < costs["stem.0"].forward
    assert costs["block2.3"].update == 2 and costs["block2.3"].backward >= 2


def test_time_and_energy_follow_from_instructions_and_the_board():
    found = estimate(64_000_000, find_board("nrf52840"))
    assert found.step_ms == pytest.approx(1000) and found.step_mj == pytest.approx(64 * 0.16)
    assert "cycles are not" in found.assumption


def test_a_page_that_cannot_be_written_is_an_error_that_says_so(report, tmp_path):
    with pytest.raises(DataError, match="cannot be written"):
        write_page(report, tmp_path / "missing" / "page.html")
