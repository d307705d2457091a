"""Where the tests find models and data that are not part of the project."""

import os
from pathlib import Path

import pytest

from . import longest

ROOT = Path(__file__).parent.parent
os.environ.setdefault("INSITU_STRICT", "1")  # in every process, so that no kernel is compiled twice


def _beside(kind: str) -> Path:
    """A folder named by INSITU_TEST_FILES, or the folder `shared` beside the checkout."""
    folder = Path(os.environ.get("INSITU_TEST_FILES", ROOT.parent / "shared")) / kind
    if not folder.is_dir():
        pytest.skip(f"no {kind} at {folder}: set INSITU_TEST_FILES to a folder that holds `{kind}`")
    return folder


def pytest_addoption(parser):
    parser.addoption("--update-golden", action="store_true", help="rewrite the files that tests compare with")
    parser.addoption("--cpu", metavar="FILE", type=Path, help="write the CPU seconds of each test to this file")


def pytest_configure(config):
    if config.getoption("--cpu"):
        config.pluginmanager.register(longest.Times(config.getoption("--cpu")))


def pytest_collection_modifyitems(items):
    longest.mark(items)


@pytest.fixture
def golden(request):
    """`golden(path, text)`: the file must contain this text; `--update-golden` writes it instead."""

    def compare(path: Path, text: str) -> None:
        if request.config.getoption("--update-golden"):
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text)
        assert path.exists() and path.read_text() == text, f"{path.name} is out of date: pytest --update-golden"

    return compare


@pytest.fixture(scope="session")
def shared_models() -> Path:
    return _beside("models")


@pytest.fixture(scope="session")
def shared_data() -> Path:
    return _beside("data")
