"""The result of one table or figure: numbers, a picture, and a verdict that follows from the numbers."""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Mapping, Sequence
from typing import Literal

import pandas as pd
from matplotlib.figure import Figure

__all__ = ["Claim", "Result", "Standing", "Verdict", "judge"]

_PERCENT = re.compile(r"(?<=\d)%")

Standing = Literal["holds", "holds in part", "does not hold", "not tested"]


@dataclasses.dataclass(frozen=True)
class Claim:
    """One part of a paper's conclusion, and whether the numbers at hand support it."""

    says: str
    """The claim in words, to be read after "that"."""
    holds: bool
    found: str
    """The numbers that decide it."""

    def __str__(self) -> str:
        return f"{self.says} ({self.found})"


@dataclasses.dataclass(frozen=True)
class Verdict:
    """Whether a paper's conclusion holds, and why."""

    standing: Standing
    sentence: str

    def __str__(self) -> str:
        return self.sentence


def judge(where: str, *claims: Claim, untested: Sequence[str] = ()) -> Verdict:
    """Combine claims into one sentence.

    A claim is one that measurements of another kind could contradict. What they could not is no claim: it goes into
    `untested`.

    Parameters
    ----------
    where : str
        On what the numbers were found, such as ``"on the NVIDIA H200"``.
    *claims : Claim
        Without any, the conclusion is not tested.
    untested : sequence of str
        What the numbers at hand say nothing of, and why; at least one without claims.

    Returns
    -------
    Verdict
        The conclusion holds if all claims do, and does not if none does.
    """
    left_open = f" Not tested: {'; '.join(_PERCENT.sub(' %', text) for text in untested)}." if untested else ""
    verdict = _of_claims(where, claims) if claims else Verdict("not tested", f"The conclusion is not tested {where}.")
    return dataclasses.replace(verdict, sentence=verdict.sentence + left_open)


def _of_claims(where: str, claims: Sequence[Claim]) -> Verdict:
    true, false = ([_PERCENT.sub(" %", str(c)) for c in claims if c.holds == kind] for kind in (True, False))
    if not false:
        return Verdict("holds", f"The conclusion holds {where}: {'; '.join(true)}.")
    if not true:
        return Verdict(
            "does not hold", f"The conclusion does not hold {where}: it is not found that {'; nor that '.join(false)}."
        )
    return Verdict(
        "holds in part",
        f"The conclusion holds in part {where}: {'; '.join(true)}; but it is not found that "
        f"{'; nor that '.join(false)}.",
    )


@dataclasses.dataclass
class Result:
    """One reproduced table or figure."""

    tables: Sequence[pd.DataFrame]
    """The numbers behind the picture; the first is the one to look at first."""
    figure: Figure
    caption: str
    """What is drawn, on what it was measured, and over how many matrices."""
    verdict: Verdict
    ours: Mapping[str, float | str] = dataclasses.field(default_factory=dict)
    """The values to compare with the figures that the paper prints, by their names; NaN where there is none."""
