from __future__ import annotations

import pytest

from reproduce import synthetic
from warploom.reproduce import reproduce


@pytest.fixture(scope="session")
def made(tmp_path_factory):
    """Everything, made once from synthetic measurements: the folder and the outcomes by id."""
    folder = tmp_path_factory.mktemp("reproduced")
    outcomes = reproduce("all", folder, context=synthetic.context(), dpi=25)
    return folder, {outcome.item.id: outcome for outcome in outcomes}


@pytest.fixture(scope="session")
def results(made):
    return {id: outcome.result for id, outcome in made[1].items() if outcome.result}
