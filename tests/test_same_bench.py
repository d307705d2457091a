"""Two files of bench/same.py, compared: what passes, what fails, and the messages. Nothing is compiled here."""

import json
from dataclasses import asdict, replace

import pytest

from bench import same
from bench.same import Result

COUNTS = {"train_step": 1_000_000, "predict": 400_000}
ARENAS = {"train_step": 10_000, "predict": 4_000}
FIELDS = {"head.weight": "33", "counters": "44"}
KWS = Result("a", "", ARENAS, 900, 12_000, 50_000, COUNTS, "11" * 32, "22" * 32, FIELDS)


@pytest.fixture
def compare(tmp_path, capsys):
    """`compare(before, after)` of results by name: the exit status, the table and the complaints."""

    def run(before: dict[str, Result], after: dict[str, Result]) -> tuple[int, str, str]:
        paths = [tmp_path / "before.json", tmp_path / "after.json"]
        for path, rows in zip(paths, (before, after)):
            same.write(path, {"machine": "any"}, rows)
        status = same.main(["--compare", *map(str, paths)])
        return status, *capsys.readouterr()

    return run


def test_equal_results_pass_and_stand_in_the_table_once(compare):
    status, table, said = compare({"kws": KWS}, {"kws": replace(KWS, stamp="b")})
    assert status == 0 and "nothing got worse in 1 programs" in said
    assert "| kws | 10,000 | 4,000 | 900 | 12,000 | 50,000 | 1,000,000 | 400,000 | equal 11111111 |" in table


def test_a_changed_hash_fails_and_names_the_arrays_that_differ(compare):
    learned = replace(KWS, state_sha256="55" * 32, fields_sha256={"head.weight": "66", "counters": "44"})
    status, table, said = compare({"kws": KWS}, {"kws": learned})
    assert status == 1 and "11111111 / 55555555 / differs" in table
    assert "kws: the state after 10 steps differs, in head.weight" in said and "counters" not in said


def test_another_state_on_the_board_fails(compare):
    status, _, said = compare({"kws": KWS}, {"kws": replace(KWS, board_sha256="77" * 32)})
    assert status == 1 and "the board's state after two steps differs" in said


@pytest.mark.parametrize("verb", ["train_step", "predict"])
@pytest.mark.parametrize(("kind", "most"), [("arena_bytes", 0.005), ("instructions", 0.01)])
def test_growth_fails_beyond_its_limit_only(compare, kind, verb, most):
    was = getattr(KWS, kind)
    passes, fails = (replace(KWS, **{kind: {**was, verb: round(was[verb] * (1 + most)) + more}}) for more in (0, 1))
    smaller = replace(KWS, **{kind: {**was, verb: was[verb] // 2}})
    assert compare({"kws": KWS}, {"kws": passes})[0] == compare({"kws": KWS}, {"kws": smaller})[0] == 0
    status, table, said = compare({"kws": KWS}, {"kws": fails})
    assert status == 1 and f"kws: {kind} of {verb} grew from {was[verb]:,} to" in said
    assert f"| {was[verb]:,} / {getattr(fails, kind)[verb]:,} / +" in table


def test_what_was_not_measured_again_or_no_longer_compiles_fails(compare):
    assert compare({"kws": KWS, "vww": KWS}, {"kws": KWS})[0] == 1
    status, _, said = compare({"kws": KWS}, {"kws": Result("b", why="needs more SRAM")})
    assert status == 1 and "kws: compiles before, needs more SRAM after" in said
    refused = Result("a", why="needs more SRAM")
    assert compare({"kws": refused}, {"kws": refused, "vww": KWS})[0] == 0  # new programs are allowed


def test_files_that_do_not_exist_are_named(tmp_path, capsys):
    assert same.main(["--compare", str(tmp_path / "a.json"), str(tmp_path / "b.json")]) == 1
    assert "a.json" in capsys.readouterr().err


def test_rows_of_the_same_source_are_kept_and_others_measured_anew(tmp_path, monkeypatch):
    measured, path = [], tmp_path / "rows.json"
    told = dict.fromkeys(("source", "python", "compiler", *same.TOOLS), "1")
    monkeypatch.setattr(same, "about", lambda: told)
    monkeypatch.setattr(same, "measure", lambda row, stamp: measured.append(row.name) or replace(KWS, stamp=stamp))
    same.main(["-o", str(path), "--only", "kws"])
    same.main(["-o", str(path), "--only", "kws"])
    assert measured == ["kws/last:2/stm32f746/s16"]
    same.main(["-o", str(path), "--only", "kws", "--again"])
    told = {**told, "source": "2"}
    same.main(["-o", str(path), "--only", "kws"])
    assert len(measured) == 3
    (kept,) = json.loads(path.read_text())["rows"].values()
    assert kept == asdict(replace(KWS, stamp=same.stamp_of(told)))


def test_all_ten_networks_of_the_page_are_compared_and_one_of_them_with_other_options():
    names = [row.name for row in same.rows()]
    assert len(names) == len(set(names)) == 16
    ways = ("f32", "s8", "s16/rows/memory", "s16/rows/96000", "s16/memory", "s16/speed")
    assert names[10:] == [f"mcunet-5fps/49kb/stm32f746/{way}" for way in ways]
