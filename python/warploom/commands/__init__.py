"""The commands in groups of their own: their options, and nothing that needs more than warploom alone does.

What a command runs is imported when it is called, so that its help is there without the packages that it needs.
"""

from __future__ import annotations

import importlib

__all__ = ["require_training"]

_TRAINING = ("pandas", "pyarrow", "lightgbm", "sklearn")


def require_training() -> None:
    """Check that what trains models is installed, before anything is read or measured.

    Raises
    ------
    ImportError
        The message says what to install.
    """
    for name in _TRAINING:
        try:
            importlib.import_module(name)
        except ImportError as error:
            raise ImportError(
                f"this command trains models, which needs {name}: pip install 'warploom[training]'", name=name
            ) from error
