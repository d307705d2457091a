"""The bench of `insitu compile` times what it claims: empty caches, every process counted. Compiles no model here."""

import sys
from pathlib import Path

import pytest

from bench import compile as bench
from bench.compile import Case, Checkout, Failed, Times

BURN = "import time\nwhile time.process_time() < 0.2: pass"


def test_cold_means_that_nothing_kept_before_is_found(tmp_path):
    environment = Checkout("this", bench.ROOT).environment(tmp_path)
    kept = ("INSITU_CACHE", "XDG_CACHE_HOME", "ZIG_GLOBAL_CACHE_DIR", "ZIG_LOCAL_CACHE_DIR")
    assert all(Path(environment[name]).is_relative_to(tmp_path) for name in kept)


def test_processes_that_a_command_starts_are_counted(tmp_path):
    starts = f"import subprocess, sys; subprocess.run([sys.executable, '-c', {BURN!r}])"
    cpu, wall, _ = bench.timed([sys.executable, "-c", starts], {}, tmp_path)
    assert cpu >= 0.2 and wall > 0


def test_a_command_that_fails_is_not_timed(tmp_path):
    with pytest.raises(Failed, match="no room"):
        bench.timed([sys.executable, "-c", "import sys; sys.exit('no room')"], {}, tmp_path)


def test_a_folder_that_is_no_checkout_is_named(tmp_path, capsys):
    assert bench.main(["--against", str(tmp_path), "-o", str(tmp_path / "a.json")]) == 1
    assert f"{tmp_path} is not a checkout" in capsys.readouterr().err


def test_a_command_gets_the_modules_of_its_checkout(tmp_path):
    package = tmp_path / "other" / "src" / "insitu"
    package.mkdir(parents=True)
    (package / "__init__.py").write_text("import onnx_twin\n\n\ndef compile():\n    pass\n")
    (tmp_path / "other" / "src" / "onnx_twin.py").write_text("import onnx")
    (tmp_path / "other" / "src" / "onnx.py").write_text("")
    other = Checkout("other", tmp_path / "other")
    bench.prepare(other, tmp_path)
    found = bench.imports(other, tmp_path)
    assert found["heavy"] == ["onnx"] and 0 < found["import_ms"] < found["import_process_ms"]
    assert found["compile_process_ms"] > 0


def test_the_table_has_a_ratio_where_there_are_two_checkouts():
    case = Case("digits", "nrf52840", Path("digits.onnx"), ())
    found = {"other": {"cold": Times([40.0, 30.0, 90.0]), "warm": Times([4.0])},
             "this": {"cold": Times([10.0]), "warm": Times([3.0])}}  # fmt: skip
    cells = tuple(bench.cells(case, found, ["other", "this"]))
    assert cells == ("digits", "nrf52840", "40.00", "10.00", "0.25", "4.00", "3.00", "0.75")
    assert len(bench.head(["other", "this"])) == len(cells)
    assert tuple(bench.cells(case, found, ["this"])) == ("digits", "nrf52840", "10.00", "3.00")


def test_eight_models_are_compiled_each_for_a_board(tmp_path):
    pytest.importorskip("sklearn")
    cases = bench.cases(tmp_path)
    assert len({case.name for case in cases}) == 8 and (tmp_path / "digits.npz").exists()
    assert all("--board" in case.arguments and "--scheme" in case.arguments for case in cases)
