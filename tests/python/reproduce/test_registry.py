from __future__ import annotations

import math

import pytest

from warploom.errors import ParameterError
from warploom.reproduce import PAPERS, find, items
from warploom.reproduce.registry import Printed, register
from warploom.reproduce.sweep import Sweep

# The list of what has to be reproduced.
IDS = (
    "M-F1 M-F3 M-F4 M-F5 M-F6 M-F7 M-F8 M-T1 M-F9 M-F10 M-T2 M-F11 M-F12 M-F13 M-F14 M-cls M-sens M-F15 "
    "G-F1 G-T1 G-F3 G-T2 G-T4 G-F6 G-T5 G-F7 G-F8 G-T6 G-T7 G-Alg1 G-F5 G-F9 G-T8 G-T9 G-F10 G-F11 G-T10 G-T11 "
    "G-F12 G-F13 G-F14 G-F15 G-ovh G-prec D-F1 D-F2 D-F5 D-F9 D-F10 D-F11 D-T2 D-F12 D-F13 "
    "C-ex C-eq C-F6.1 C-F6.2 C-F6.3 C-F6.4 C-F6.5 C-F6.6 C-F6.7 C-F6.8 C-tune"
)


def test_every_id_is_there_in_the_order_of_the_papers():
    assert [item.id for item in items()] == IDS.split()


def test_what_is_no_figure_says_where_it_stands():
    with pytest.raises(ValueError, match="'M-T9' has no number of a figure"):
        register("M-T9", "title", "Table 9", "Conclusion.")


def test_an_id_is_taken_once():
    with pytest.raises(ValueError, match="there are two items 'M-F8'"):
        register("M-F8", "title", "Fig. 8", "Conclusion.")(lambda context: None)


def test_every_item_is_made_or_says_why_not():
    for item in items():
        assert item.title
        assert item.place
        assert item.conclusion.endswith(".")
        assert item.paper is PAPERS[item.id[0]]
        quantities = [printed.quantity for printed in item.printed]
        assert len(quantities) == len(set(quantities))


@pytest.mark.parametrize(
    ("names", "found"),
    [
        (["M-F8"], ["M-F8"]),
        (["m-t1", "M-F1"], ["M-F1", "M-T1"]),
        (["M-F1", "M-F1"], ["M-F1"]),
        (["M-T*"], ["M-T1", "M-T2"]),
    ],
)
def test_names(names, found):
    assert [item.id for item in find(names)] == found


def test_letters_and_all():
    assert [item.id for item in find(["c"])] == [item.id for item in items() if item.id[0] == "C"]
    assert find(["all"]) == items()
    assert find(["ALL", "M"]) == items()


def test_an_unknown_id_lists_the_closest_and_the_known():
    with pytest.raises(
        ParameterError, match=r"no table or figure 'M-F88'; did you mean .*M-F8.*known: M-F1, "
    ) as error:
        find(["M-F3", "M-F88"])
    for id in IDS.split():
        assert f" {id}," in str(error.value)
    with pytest.raises(ParameterError, match=r"no table or figure 'zzzz'; known"):
        find(["zzzz"])


def test_sweeps_match_candidates():
    sweep = Sweep("spmv/float64", "warm", {"one": "spmv/none/csr/scalar", "many": "spmv/none/csr/cusparse*"})
    measured = ["spmv/none/csr/scalar", "spmv/none/csr/cusparse", "spmv/none/csr/cusparse[algorithm=1]", "x"]
    assert sweep.candidates("one", measured) == measured[:1]
    assert sweep.candidates("many", measured) == measured[1:3]
    assert sweep.command(["many"]) == (
        "warploom bench run --output sweep --corpus spmv --setting spmv/float64 --candidates 'spmv/none/csr/cusparse*'"
    )


def test_printed_figures_as_text():
    assert Printed("speedup", 1.5, "Fig. 1").show(2.346) == "2.35"
    assert Printed("share", 0.5, "Fig. 1", ".0%").show(0.256) == "26 %"
    assert Printed("share", 0.5, "Fig. 1", ".0%").show(math.nan) == "-"
    assert Printed("arrays", "0 1", "Fig. 1").show("0 2") == "0 2"
