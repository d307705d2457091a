"""ONNX's own node tests judge the importer, in numpy and as generated C."""

import json

import onnx
import pytest

from tests.importers.onnx_backend import PAGE, page, promised, run_all


@pytest.fixture(scope="module")
def results():
    return run_all()


def test_at_least_250_of_onnx_own_node_tests_pass(results, capsys):
    narrow = promised(results)
    with capsys.disabled():
        for what, tests in (("promised ops only", narrow), ("all ops of the table", results)):
            passed = sum(r.status == "passed" for r in tests)
            print(f"\nONNX node tests, {what}: {passed} of {len(tests)} pass, in numpy and as generated C")
    assert len(narrow) >= 345
    assert sum(r.status == "passed" for r in narrow) >= 250


def test_what_does_not_pass_is_refused_with_a_reason_and_never_wrong(results):
    assert [r for r in results if r.status == "failed"] == []
    assert all(r.reason for r in results if r.status != "passed")


def test_the_committed_list_is_current(results):
    recorded = json.loads(PAGE.read_text())["onnx"]
    if recorded != onnx.__version__:
        pytest.skip(f"the list is of onnx {recorded}, this is {onnx.__version__}")
    assert PAGE.read_text() == page(results), "python -m tests.importers.onnx_backend writes it anew"
