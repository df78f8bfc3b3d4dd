"""The classes of errors, and that the core raises them."""

import inspect

import numpy as np
import pytest

from warploom import _core, errors

BUILT_IN = {
    "DeviceError": RuntimeError,
    "DownloadError": OSError,
    "DtypeError": TypeError,
    "FileFormatError": ValueError,
    "IndexOverflowError": OverflowError,
    "InvalidMatrixError": ValueError,
    "MissingDataError": FileNotFoundError,
    "OutOfMemoryError": MemoryError,
    "ParameterError": ValueError,
    "ProfileError": ValueError,
    "ShapeError": ValueError,
}


def test_every_class_is_listed():
    classes = {name for name, _ in inspect.getmembers(errors, inspect.isclass)}
    assert classes == set(errors.__all__) == {*BUILT_IN, "WarploomError"}


@pytest.mark.parametrize("name", BUILT_IN)
def test_every_class_is_also_the_built_in_one(name):
    error = getattr(errors, name)("what is wrong", argument="A", position=3)
    assert isinstance(error, errors.WarploomError)
    assert isinstance(error, BUILT_IN[name])
    assert (str(error), error.argument, error.position) == ("what is wrong", "A", 3)
    assert getattr(errors, name)("x").argument is None


def test_the_core_raises_them_with_argument_and_position():
    with pytest.raises(errors.InvalidMatrixError) as caught:
        _core.CsrView(np.array([0, 1]), np.array([5], np.int32), None, 1, 2)
    assert (caught.value.argument, caught.value.position) == ("indices", 0)
    with pytest.raises(errors.DtypeError) as caught:
        _core.CsrView(np.array([0, 1]), np.array([1], np.int32), np.array([1j]), 1, 2)
    assert (caught.value.argument, caught.value.position) == ("data", None)
    with pytest.raises(errors.DtypeError) as caught:
        _core.CsrView(np.array([0, 1]), np.array([1.0]), None, 1, 2)
    assert caught.value.argument == "indices"
