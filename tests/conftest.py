"""Where the tests find models and data that are not part of the project."""

import os
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent


def _beside(kind: str) -> Path:
    """A folder named by INSITU_TEST_FILES, or the one called `shared` beside the checkout."""
    folder = Path(os.environ.get("INSITU_TEST_FILES", ROOT.parent / "shared")) / kind
    if not folder.is_dir():
        pytest.skip(f"no {kind} at {folder}: set INSITU_TEST_FILES to a folder that holds `{kind}`")
    return folder


@pytest.fixture(scope="session")
def shared_models() -> Path:
    return _beside("models")


@pytest.fixture(scope="session")
def shared_data() -> Path:
    return _beside("data")
