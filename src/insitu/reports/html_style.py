"""The style sheet of the HTML page, and its few lines of script. Nothing is expressed by colour alone."""

CSS = """
:root {
  color-scheme: light dark;
  --paper: #fcfcfa; --card: #ffffff; --ink: #1d2129; --soft: #5c6470; --line: #dfe2e6; --track: #eceef1;
  --a: #2f6db3; --b: #c9622d; --c: #3c8d6e; --d: #8a5fb0; --e: #b58a1b; --f: #6c7683;
  --good: #20744f; --bad: #b3261e; --heat: 47, 109, 179;
}
@media (prefers-color-scheme: dark) {
  :root {
    --paper: #14171c; --card: #1b1f26; --ink: #e8eaed; --soft: #a3abb6; --line: #313842; --track: #262c35;
    --a: #6ea8e8; --b: #ec9060; --c: #67bd9b; --d: #bb97dd; --e: #dcb74d; --f: #98a2af;
    --good: #6fcf9f; --bad: #f2857b; --heat: 110, 168, 232;
  }
}
* { box-sizing: border-box; }
body {
  margin: 0; background: var(--paper); color: var(--ink);
  font: 16px/1.55 system-ui, -apple-system, "Segoe UI", Roboto, "Helvetica Neue", Arial, sans-serif;
}
main { max-width: 62rem; margin: 0 auto; padding: 2.5rem 1.25rem 4rem; }
h1 { font-size: clamp(1.6rem, 4.5vw, 2.3rem); line-height: 1.15; letter-spacing: -0.02em; margin: 0 0 0.6rem; }
h2 { font-size: 1.2rem; letter-spacing: -0.01em; margin: 0 0 0.25rem; }
p { margin: 0 0 0.8rem; max-width: 44rem; }
.soft, figcaption, caption { color: var(--soft); font-size: 0.9rem; }
section { margin-top: 2.75rem; }
.card { background: var(--card); border: 1px solid var(--line); border-radius: 10px; padding: 1rem 1.1rem; }
.num, td.n, th.n { font-variant-numeric: tabular-nums; }
.tiles { display: grid; grid-template-columns: repeat(auto-fit, minmax(10rem, 1fr)); gap: 0.8rem;
  margin-top: 0.8rem; }
.tile .what { color: var(--soft); font-size: 0.86rem; }
.tile .value { font-size: 1.7rem; font-weight: 650; letter-spacing: -0.02em; line-height: 1.25;
  font-variant-numeric: tabular-nums; white-space: nowrap; }
.tile .under { color: var(--soft); font-size: 0.86rem; }
.answers { display: grid; grid-template-columns: repeat(2, minmax(0, 1fr)); gap: 0.8rem; margin-top: 1.4rem; }
.answer .what { color: var(--soft); font-size: 0.9rem; font-weight: 400; letter-spacing: 0; margin: 0; }
.answer .value { font-size: clamp(1.45rem, 3.4vw, 2.1rem); font-weight: 650; letter-spacing: -0.02em; line-height: 1.3;
  font-variant-numeric: tabular-nums; overflow-wrap: anywhere; }
.answer .value small { font-size: 0.9rem; font-weight: 400; letter-spacing: 0; color: var(--soft); }
.answer .under { color: var(--soft); font-size: 0.9rem; overflow-wrap: anywhere; }
.answer .under b { color: var(--ink); font-weight: 600; }
.answer.good .value { color: var(--good); }
.answer.bad .value { color: var(--bad); }
.answer ol { margin: 0.35rem 0 0; padding-left: 1.2rem; font-size: 0.93rem; }
.answer li { margin-bottom: 0.25rem; overflow-wrap: anywhere; }
.whole { white-space: nowrap; }
.fine { font-size: 0.8rem; margin-top: 0.6rem; max-width: none; }
.advice { border-left: 3px solid var(--b); padding-left: 0.7rem; margin: 0.6rem 0; }
.stack { display: grid; grid-template-columns: minmax(0, 1fr); gap: 1rem; }
.wide { overflow-x: auto; }
.groups td, .groups th { padding-right: 0.7rem; }
@media (max-width: 40rem) {
  main { padding: 1.1rem 0.9rem 3rem; }
  .answers { grid-template-columns: 1fr; gap: 0.55rem; margin-top: 0.8rem; }
  .answer.card { padding: 0.6rem 0.85rem; }
}
.gain { color: var(--good); }
.loss { color: var(--bad); }
.bar { display: flex; height: 1.6rem; border-radius: 5px; overflow: hidden; background: var(--track); gap: 1px; }
.bar > i, .meter > i { display: block; height: 100%; min-width: 1px; }
.meter { height: 0.5rem; border-radius: 3px; background: var(--track); overflow: hidden; margin: 0.5rem 0 0.2rem; }
.two { display: grid; grid-template-columns: repeat(auto-fit, minmax(min(100%, 21rem), 1fr)); gap: 1rem; }
table { border-collapse: collapse; width: 100%; font-size: 0.9rem; }
caption { text-align: left; padding-bottom: 0.3rem; }
td { overflow-wrap: anywhere; }
td, th { padding: 0.22rem 0.5rem 0.22rem 0; text-align: left; font-weight: 400; vertical-align: top; }
thead th { color: var(--soft); border-bottom: 1px solid var(--line); }
td.n, th.n { text-align: right; padding-right: 0; padding-left: 0.5rem; white-space: nowrap; }
td.i { white-space: nowrap; }
.key { display: inline-block; width: 0.75rem; height: 0.75rem; border-radius: 3px; margin-right: 0.45rem;
  vertical-align: -0.05rem; }
.keys { display: flex; flex-wrap: wrap; gap: 0.2rem 1.1rem; font-size: 0.88rem; margin: 0.5rem 0; }
.plot { display: grid; grid-template-columns: auto 1fr; gap: 0.2rem 0.5rem; margin: 0.7rem 0 0; }
.plot svg { width: 100%; display: block; background: var(--track); border-radius: 4px; }
.plot .y { display: flex; flex-direction: column; justify-content: space-between; text-align: right; }
.plot .x { grid-column: 2; display: flex; justify-content: space-between; }
.plot .x, .plot .y { color: var(--soft); font-size: 0.8rem; font-variant-numeric: tabular-nums; line-height: 1; }
.phases { grid-column: 2; display: flex; gap: 2px; font-size: 0.8rem; color: var(--soft); }
.phases > span { border-top: 3px solid var(--line); padding-top: 0.15rem; overflow: hidden; text-overflow: ellipsis;
  white-space: nowrap; }
.rows { display: grid; grid-template-columns: minmax(4rem, max-content) 1fr max-content; gap: 0.3rem 0.7rem;
  align-items: center; font-size: 0.9rem; margin-top: 0.6rem; }
.rows .name { overflow-wrap: anywhere; max-width: 11rem; }
.rows .bar { height: 1.05rem; background: none; }
.confusion { font-size: 0.84rem; table-layout: fixed; }
.confusion td, .confusion thead th { text-align: center; padding: 0.28rem 0; font-variant-numeric: tabular-nums; }
.confusion th[scope=row] { padding-right: 0.4rem; overflow: hidden; text-overflow: ellipsis; white-space: nowrap; }
.confusion .corner { width: 34%; text-align: left; }
.confusion td { border: 1px solid var(--card); border-radius: 3px; }
.confusion td.zero { color: var(--line); }
.confusion td.hit { font-weight: 650; }
@media (max-width: 40rem) { /* on a phone the type goes below the name, so that neither breaks within a word */
  .values tr { display: grid; grid-template-columns: 1fr max-content; }
  .values td:nth-child(2) { grid-area: 2 / 1 / 3 / 3; padding: 0 0 0.2rem 1.2rem; color: var(--soft); }
  .values td:nth-child(2):empty { display: none; }
  .values td:nth-child(3) { grid-area: 1 / 2; }
  .changes tr { display: grid; grid-template-columns: 1fr max-content; padding-bottom: 0.4rem; }
  .changes td { padding: 0; }
  .changes td:nth-child(1) { grid-area: 1 / 1 / 2 / 3; }
  .changes td:nth-child(2) { grid-area: 2 / 1; color: var(--soft); }
  .changes td:nth-child(3) { grid-area: 3 / 1 / 4 / 3; color: var(--soft); text-align: left; padding: 0; }
  .changes td:nth-child(4) { grid-area: 2 / 2; }
  .confusion thead th { font-size: 0.72rem; }
}
.block { stroke: var(--card); stroke-width: 1; vector-effect: non-scaling-stroke; }
.peak { fill: var(--ink); opacity: 0.13; pointer-events: none; }
h3 { font-size: 1rem; margin: 0 0 0.5rem; }
#told { min-height: 1.5em; margin-top: 0.4rem; font-variant-numeric: tabular-nums; }
[data-tip]:focus { outline: 2px solid var(--ink); outline-offset: 1px; }
dl { display: grid; grid-template-columns: max-content 1fr; gap: 0.2rem 1rem; font-size: 0.9rem; margin: 0.5rem 0 0; }
dt { color: var(--soft); } dd { margin: 0; overflow-wrap: anywhere; }
footer { margin-top: 3rem; color: var(--soft); font-size: 0.86rem; }
"""

# the text below the arena describes the block under the pointer; without a script, titles say the same
SCRIPT = """
(function () {
  var told = document.getElementById("told");
  if (told) {
    var idle = told.textContent;
    var tell = function (event) {
      var tip = event.target.getAttribute && event.target.getAttribute("data-tip");
      told.textContent = tip || idle;
    };
    var arena = document.getElementById("arena-map");
    ["pointerover", "pointerdown"].forEach(function (name) { arena.addEventListener(name, tell); });
    arena.addEventListener("pointerleave", function () { told.textContent = idle; });
  }
  document.documentElement.setAttribute("data-ready", "yes");
})();
"""
