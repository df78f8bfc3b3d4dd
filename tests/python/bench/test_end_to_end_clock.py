import gc

import pytest

from warploom.bench.end_to_end.clock import Limits, PythonTool, Times, measure


class Scripted:
    """A tool whose times are given: planning, first product, each further product; in microseconds."""

    def __init__(self, planning, call, first=None):
        self.planning, self.call = iter(planning), call
        self.first = call if first is None else first
        self.loops, self.asked = [], []

    def time(self, products):
        assert not gc.isenabled()
        self.loops.append(products)
        return Times(next(self.planning), self.first, products * self.call)

    def time_until(self, products):
        assert not gc.isenabled()
        self.asked.append(products)
        return 1000.0 * products

    def facts(self):
        return {"candidate": "c"}


def test_medians_without_the_first_planning():
    tool = Scripted([900.0, 5.0, 3.0, 4.0, 9.0, 1.0], call=2.0, first=7.0)
    found = measure(tool, Limits(loop_s=1e-4), direct=False)
    assert found == {
        "planning_us": 4.0,
        "planning_min_us": 1.0,
        "planning_max_us": 9.0,
        "planning_cold_us": 900.0,
        "repeats": 5,
        "first_us": 11.0,
        "call_us": 2.0,
        "candidate": "c",
    }
    assert tool.loops[1:] == [50] * 5  # 50 products of 2 us are the 100 us that loops are to take
    assert gc.isenabled()


def test_loops_have_at_least_two_products_and_at_most_a_thousand():
    for call, expected in ((1e6, 2), (1e-9, 1000)):
        tool = Scripted([1.0] * 6, call=call)
        measure(tool, Limits(), direct=False)
        assert set(tool.loops[1:]) == {expected}


def test_planning_that_takes_too_long_is_repeated_once():
    tool = Scripted([1.0, 2.0], call=1.0)
    assert measure(tool, Limits(planning_s=0.0), direct=False)["repeats"] == 1


@pytest.mark.parametrize(
    ("seconds", "asked"),
    [
        (1e-6, []),
        (120e-6, [10]),  # 100 us for planning and 10 us for products
        (360e-6, [10, 10, 10, 100]),
        (1.0, [10] * 3 + [100] * 3 + [1000] * 3),
    ],
)
def test_many_products_are_measured_where_they_take_little_time(seconds, asked):
    tool = Scripted([100.0] * 6, call=1.0)
    found = measure(tool, Limits(direct_s=seconds))
    assert tool.asked == asked
    assert {name: value for name, value in found.items() if name.startswith("until")} == {
        f"until_{n}_us": 1000.0 * n for n in dict.fromkeys(asked)
    }


def test_collection_goes_on_after_an_error():
    tool = Scripted([], call=1.0)
    with pytest.raises(StopIteration):
        measure(tool, Limits())
    assert gc.isenabled()


def test_tools_of_python_plan_once_and_multiply_as_often_as_asked():
    events = []

    def prepare():
        events.append("plan")
        return lambda: events.append("multiply") or len(events)

    tool = PythonTool(prepare, lambda: events.append("wait"), lambda multiply: {"candidate": repr(multiply())})
    times = tool.time(2)
    expected = ["wait", "plan", "wait", "multiply", "wait", "multiply", "multiply", "wait"]
    assert events[: len(expected)] == expected
    assert tool.result == 4
    assert tool.facts() == {"candidate": "9"}
    assert min(times.planning_us, times.first_us, times.products_us) > 0
    events.clear()
    assert tool.time_until(3) > 0
    assert events == ["wait", "plan", *["multiply"] * 3, "wait"]
