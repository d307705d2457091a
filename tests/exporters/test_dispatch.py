"""Which exporter a file gets, and what is said if there is none."""

from __future__ import annotations

from pathlib import Path

import pytest

import insitu
from insitu.exporters.formats import FORMATS, format_of


@pytest.mark.parametrize(("name", "to", "format"), [
    ("a.tflite", None, "litert"), ("a.TFLITE", "litert-train", "litert-train"), ("a.onnx", None, "onnx"),
    ("a.mlmodel", None, "coreml"), ("a.pt", "torch", "torch"),
])  # fmt: skip
def test_the_suffix_or_the_name_chooses_the_format(name: str, to: str | None, format: str):
    assert format_of(Path(name), to) is FORMATS[format]


@pytest.mark.parametrize(("name", "to", "words"), [
    ("a.h5", None, "no format has the suffix '.h5'"), ("a.tflite", "tf", "unknown format 'tf'"),
    ("a.onnx", "litert", "a file for litert must end in .tflite"),
])  # fmt: skip
def test_a_wrong_name_is_an_error_with_the_right_ones(name: str, to: str | None, words: str):
    with pytest.raises(insitu.DataError, match=words) as found:
        format_of(Path(name), to)
    assert found.value.hint


def test_a_missing_package_is_named_with_its_extra(monkeypatch):
    monkeypatch.setattr("insitu.exporters.formats.find_spec", lambda name: None)
    with pytest.raises(insitu.ToolError, match=r'needs ai_edge_litert(.|\n)*pip install "insitu\[tflite\]"'):
        FORMATS["litert"].load()
