"""Names: every spelling leads to one, and nothing in a name is executed."""

import importlib

import numpy as np
import pytest
import scipy.sparse as sp
from hypothesis import given
from hypothesis import strategies as st

from warploom import errors
from warploom.corpus import names

registry = importlib.import_module("warploom.corpus.constructions._registry")


def widget(size, *, seed: int = 0, share: float = 0.5, mode: str = "plain", sizes=(1, 2), wide: bool = False):
    """A construction for the tests."""
    return sp.csr_array(np.full((size, size + 1), float(seed)))


@pytest.fixture(autouse=True, scope="module")
def registered():
    registry._REGISTRY["widget"] = registry.Construction("widget", "widgets", "test problem", widget)
    yield
    del registry._REGISTRY["widget"]


@pytest.mark.parametrize(
    ("text", "name"),
    [
        ("HB/dwt_361", "HB/dwt_361"),
        (" HB/dwt_361 ", "HB/dwt_361"),
        ("HB/west0479.T", "HB/west0479.T"),
        ("HB/west0479.T.T", "HB/west0479"),
        ("HB/west0479.T.T.T", "HB/west0479.T"),
        ("folder/A.mtx.gz.T[3:5]", "folder/A.mtx.gz.T[3:5]"),
        ("A[ 3 : 5 ]", "A[3:5]"),
        ("A[:5]", "A[0:5]"),
        ("A[5:]", "A[5:]"),
        ("A[:]", "A"),
        ("A[0:].T", "A.T"),
        ("A.T[:].T", "A"),
        ("A[007:0010]", "A[7:10]"),
        ("A[10:20][2:5]", "A[12:15]"),
        ("A[10:20][2:]", "A[12:20]"),
        ("A[10:][2:5]", "A[12:15]"),
        ("A[10:20].T[2:5]", "A[10:20].T[2:5]"),
        ("widget(size=3)", "widget(size=3)"),
        ("widget( 3 )", "widget(size=3)"),
        (" widget (3,seed = 0, share=.5, mode='plain')", "widget(size=3)"),
        ("widget(seed=-2, size=3)", "widget(size=3,seed=-2)"),
        ("widget(3,share=1)", "widget(size=3,share=1.0)"),
        ("widget(3,share=5e-1)", "widget(size=3)"),
        ("widget(0x10,seed=1_000)", "widget(size=16,seed=1000)"),
        ("widget(3,wide=True).T", "widget(size=3,wide=True).T"),
        ("widget(3,wide=0)", "widget(size=3,wide=0)"),
        ("widget(3, sizes = [1, 2])", "widget(size=3)"),
        ("widget(3, sizes=(7, [8, 9]))", "widget(size=3,sizes=(7,(8,9)))"),
        ("widget(3,sizes=(7,))", "widget(size=3,sizes=(7,))"),
        ("widget(3,mode='a b.T[0:1]')[0:2]", "widget(size=3,mode='a b.T[0:1]')[0:2]"),
        ('widget(3,mode="it\'s (")', 'widget(size=3,mode="it\'s (")'),
        ("widget(3,\n  seed=1)", "widget(size=3,seed=1)"),
    ],
)
def test_canonical(text, name):
    assert names.canonical(text) == name
    assert names.canonical(name) == name


SIZES = st.integers(-5, 10**20)
VALUES = {
    "seed": st.integers(),
    "share": st.floats(allow_nan=False, allow_infinity=False) | st.integers(-9, 9),
    "mode": st.text(max_size=8),
    "sizes": st.lists(st.integers() | st.text(max_size=3) | st.booleans(), max_size=3).map(tuple),
    "wide": st.booleans(),
}
ROWS = st.tuples(st.integers(0, 50), st.integers(1, 50)).map(lambda r: f"[{r[0]}:{r[0] + r[1]}]")
SUFFIXES = st.lists(st.just(".T") | ROWS | st.sampled_from(["[:]", "[0:]"]), max_size=4)


@st.composite
def spellings(draw):
    """A name in some order and with some spaces, and what it says."""
    parameters = draw(st.fixed_dictionaries({"size": SIZES}, optional=VALUES))
    space = st.sampled_from(["", " ", "  "])
    order = draw(st.permutations(list(parameters)))
    written = [f"{draw(space)}{key}{draw(space)}={draw(space)}{parameters[key]!r}{draw(space)}" for key in order]
    return f"widget({','.join(written)})", parameters


@given(spellings(), SUFFIXES)
def test_round_trip(spelling, suffixes):
    text, parameters = spelling
    try:
        parsed = names.parse(text + "".join(suffixes))
    except errors.ParameterError as error:
        assert "goes beyond" in str(error)  # noqa: PT017
        return
    assert names.parse(str(parsed)) == parsed
    assert names.canonical(str(parsed)) == str(parsed)
    defaults = registry.find("widget").defaults
    given_ = {key: value for key, value in parameters.items() if value != defaults[key] or key == "size"}
    stripped = {key: value for key, value in parsed.base.parameters.items() if value != defaults[key] or key == "size"}
    assert stripped == given_


@given(st.permutations(["seed", "share", "mode"]))
def test_order_does_not_matter(order):
    values = {"seed": 4, "share": 0.25, "mode": "x"}
    text = ",".join(f"{key}={values[key]!r}" for key in order)
    assert names.canonical(f"widget({text},size=1)") == "widget(size=1,seed=4,share=0.25,mode='x')"


@given(st.text(max_size=30))
def test_any_text_is_a_name_or_refused(text):
    try:
        name = names.canonical(text)
    except errors.ParameterError as error:
        assert error.argument == "name"  # noqa: PT017
    else:
        assert names.canonical(name) == name


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("", "not the name"),
        (".T", "not the name"),
        ("[0:3]", "not the name"),
        ("A[3]", r"'\[3\]' is not a range"),
        ("A[1:2:3]", "is not a range"),
        ("A[-1:3]", "is not a range"),
        ("A[a:b]", "is not a range"),
        ("A[0:" + "9" * 5000 + "]", "is not a range"),
        ("A[3:3]", "holds no row"),
        ("A[4:3]", "holds no row"),
        ("A[10:20][5:11]", "goes beyond the 10 rows"),
        ("A[10:20][10:]", "goes beyond the 10 rows"),
        ("qqqqqq(3)", "unknown construction 'qqqqqq'; known: .*widget"),
        ("wigdet(3)", "unknown construction 'wigdet'; did you mean widget"),
        ("widget()", "missing a required argument: 'size'; its parameters: size, seed"),
        ("widget(3,colour=1)", "unexpected keyword argument 'colour'"),
        ("widget(3,size=3)", "multiple values"),
        ("widget(1,2)", "too many positional"),
        ("widget(size=3,size=3)", "once, as name=value"),
        ("widget(3", None),
        ("widget(3))", "not a construction"),
        ("widget(3)+widget(4)", "not a construction"),
        ("widget(3)(4)", "not a construction"),
        ("widget(**{'size':3})", "once, as name=value"),
        ("widget(*[3])", "is not a number"),
        ("widget(size)", "size is not a number"),
        ("widget(1+1)", r"1 \+ 1 is not a number"),
        ("widget(2j)", "is not a number"),
        ("widget(b'x')", "is not a number"),
        ("widget(1e999)", "is not a number"),
        ("widget({1:2})", "is not a number"),
        ("widget(__import__('os').abort())", "is not a number"),
        ("widget(open('/etc/passwd'))", "is not a number"),
        ("widget(" + "(" * 5000 + ")" * 5000 + ")", "not a construction"),
        ("widget(3,mode='\0')", "not a construction"),
    ],
)
def test_what_is_no_name(text, words):
    if words is None:  # reads as a name without parentheses, which no matrix has
        assert names.canonical(text) == text
        return
    with pytest.raises(errors.ParameterError, match=words) as caught:
        names.canonical(text)
    assert caught.value.argument == "name"


@pytest.mark.parametrize(
    ("text", "plain"), [("HB/A", True), ("A.T", False), ("A[0:2]", False), ("f(x)", False), ("", False), ("A.t", True)]
)
def test_what_stands_for_itself(text, plain):
    assert names.is_plain(text) == plain
