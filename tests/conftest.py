import importlib.util
from pathlib import Path


def pytest_terminal_summary(terminalreporter):
    """Say so, without failing, when the GPU code has changed since it was last tested on a GPU."""
    path = Path(__file__).parent / "gpu" / "source_hash.py"
    spec = importlib.util.spec_from_file_location("source_hash", path)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    warning = module.verification_warning()
    if warning:
        terminalreporter.write_sep("=", "GPU code not verified", yellow=True)
        terminalreporter.write_line(f"WARNING: {warning}.", yellow=True)
        terminalreporter.write_line("Run python tests/gpu/verify.py on a machine with a GPU.")
