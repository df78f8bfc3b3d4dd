# Puts this folder on the module path for the tests in folders below.
import os
import signal
from pathlib import Path

import hypothesis

# The measurements of this checkout, also where warploom is installed from it: they are no part of its wheel. Set here
# for the tests and for the programs and notebooks that they start.
os.environ.setdefault(
    "WARPLOOM_MEASUREMENTS", str(Path(__file__).parents[2] / "python" / "warploom-data" / "warploom_data")
)

# A shell starts jobs in the background with Ctrl-C ignored, and so are the programs that they start. Tests press it.
if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)

# How long an example takes says how busy the machine is.
hypothesis.settings.register_profile("patient", hypothesis.settings(), deadline=None)
hypothesis.settings.load_profile("patient")
