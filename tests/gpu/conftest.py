import os
import pathlib
import sys

import pytest

# The processes of verify.py share its GPUs, which has to be said before any library looks for them.
if (worker := os.environ.get("PYTEST_XDIST_WORKER")) and (gpus := os.environ.get("WARPLOOM_TEST_GPUS")):
    of_each = gpus.split(",")
    os.environ["CUDA_VISIBLE_DEVICES"] = of_each[int(worker.removeprefix("gw")) % len(of_each)]

from warploom import _core, _device

sys.path.insert(0, str(pathlib.Path(__file__).parents[1] / "python"))


def pytest_collection_modifyitems(items):
    # Under the sanitizer, verify.py runs many processes, each of them part of the tests: of all, or of those it names.
    if names := os.environ.get("WARPLOOM_TEST_NAMES"):
        wanted = set(pathlib.Path(names).read_text().splitlines())
        items[:] = [item for item in items if item.name in wanted]
    if part := os.environ.get("WARPLOOM_TEST_PART"):
        number, parts = map(int, part.split("/"))
        items[:] = items[number::parts]
    info = _core.cuda_info()
    if not info["devices"]:
        for item in items:
            item.add_marker(pytest.mark.skip(reason=f"no GPU: {info['error']}"))
    elif reason := _device.load_cublas():
        for item in items:
            kernel = item.callspec.params.get("kernel") if hasattr(item, "callspec") else None
            if getattr(kernel, "source", "") == "cuBLAS":
                item.add_marker(pytest.mark.skip(reason=f"no cuBLAS: {reason}"))


@pytest.fixture(autouse=True)
def _leave_memory_to_other_processes():
    """Give back what frameworks keep of freed memory, once little is left: verify.py runs many processes on a GPU."""
    yield
    torch, cupy = sys.modules.get("torch"), sys.modules.get("cupy")
    if torch is None or not torch.cuda.is_initialized():
        return
    free, total = torch.cuda.mem_get_info()
    if free < total / 3:
        torch.cuda.empty_cache()
        if cupy is not None:
            cupy.get_default_memory_pool().free_all_blocks()
