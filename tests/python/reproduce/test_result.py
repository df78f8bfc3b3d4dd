from __future__ import annotations

from warploom.reproduce.result import Claim, judge

TRUE, FALSE = Claim("water is wet", True, "98%"), Claim("stones float", False, "0 of 3")


def test_a_conclusion_holds_if_all_claims_do():
    verdict = judge("on Earth", TRUE, TRUE)
    assert verdict.standing == "holds"
    assert str(verdict) == "The conclusion holds on Earth: water is wet (98 %); water is wet (98 %)."


def test_it_does_not_if_none_does():
    verdict = judge("on Earth", FALSE, FALSE)
    assert verdict.standing == "does not hold"
    assert str(verdict) == (
        "The conclusion does not hold on Earth: it is not found that stones float (0 of 3); nor that stones float "
        "(0 of 3)."
    )


def test_it_holds_in_part_if_some_do():
    verdict = judge("on Earth", FALSE, TRUE)
    assert verdict.standing == "holds in part"
    assert str(verdict) == (
        "The conclusion holds in part on Earth: water is wet (98 %); but it is not found that stones float (0 of 3)."
    )


def test_without_claims_nothing_is_tested():
    verdict = judge("on Earth", untested=["whether 3% of stones float", "water"])
    assert verdict.standing == "not tested"
    assert str(verdict) == ("The conclusion is not tested on Earth. Not tested: whether 3 % of stones float; water.")


def test_what_is_not_tested_is_said_beside_what_is():
    verdict = judge("on Earth", TRUE, untested=["stones"])
    assert verdict.standing == "holds"
    assert str(verdict) == "The conclusion holds on Earth: water is wet (98 %). Not tested: stones."
