import pytest

from warploom.bench.loading import loaded


@pytest.mark.parametrize("ahead", [0, 1, 3, 10])
def test_items_come_in_order_with_what_was_made_of_them(ahead):
    assert [(item, make()) for item, make in loaded([4, -1, 0, 7, -3], abs, ahead)] == [
        (4, 4),
        (-1, 1),
        (0, 0),
        (7, 7),
        (-3, 3),
    ]


@pytest.mark.parametrize("ahead", [0, 2])
def test_an_error_is_raised_when_the_item_is_asked_for_and_the_next_are_there(ahead):
    items = loaded(["1", "x", "2"], int, ahead)
    assert next(items)[1]() == 1
    _, make = next(items)
    with pytest.raises(ValueError, match="invalid literal"):
        make()
    assert next(items)[1]() == 2
    assert next(items, None) is None


@pytest.mark.parametrize("ahead", [0, 2])
def test_no_items(ahead):
    assert list(loaded([], abs, ahead)) == []


def test_nothing_is_loaded_before_it_is_asked_for_without_processes():
    made = []
    items = loaded([1, 2], made.append)
    assert made == []
    next(items)[1]()
    assert made == [1]


def test_an_iteration_that_stops_early_ends_its_processes():
    items = loaded(list(range(100)), abs, 2)
    assert next(items)[0] == 0
    items.close()
