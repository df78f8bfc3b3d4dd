import pathlib
import sys

import pytest

from warploom import _core

sys.path.insert(0, str(pathlib.Path(__file__).parents[1] / "python"))


def pytest_collection_modifyitems(items):
    info = _core.cuda_info()
    if not info["devices"]:
        for item in items:
            item.add_marker(pytest.mark.skip(reason=f"no GPU: {info['error']}"))
