"""The Kotlin example compiles, against declarations of what it uses of LiteRT for Android. It does not run here."""

import shutil
import subprocess
from pathlib import Path

import pytest

EXAMPLE = Path(__file__).parents[2] / "examples" / "android" / "OnDeviceTrainer.kt"
DECLARED = Path(__file__).parent / "android" / "Interpreter.kt"


@pytest.mark.slow
def test_the_kotlin_example_compiles(tmp_path):
    compiler = shutil.which("kotlinc")
    if compiler is None:
        pytest.skip("no kotlinc")
    command = [compiler, str(EXAMPLE), str(DECLARED), "-d", str(tmp_path)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=600, check=False)
    assert done.returncode == 0, done.stderr
    assert (tmp_path / "insitu" / "OnDeviceTrainer.class").exists()
