"""What planning shows of itself: nothing at first, then a bar in a terminal or a line in a notebook."""

import io
import sys
import types

import pytest

from warploom import _terminal


class Terminal(io.StringIO):
    def isatty(self):
        return True


@pytest.fixture
def clock(monkeypatch):
    """Time that passes only when a test says so."""
    now = [0.0]
    monkeypatch.setattr(_terminal.time, "monotonic", lambda: now[0])
    return now


@pytest.fixture
def shown(monkeypatch):
    """Steps that a bar shows."""
    steps = []

    @_terminal.contextlib.contextmanager
    def bar(first):
        yield lambda *step: steps.append(step)

    monkeypatch.setattr(_terminal, "progress_bar", bar)
    return steps


def test_nothing_is_shown_at_first(clock, shown, monkeypatch):
    monkeypatch.setattr(sys, "stderr", Terminal())
    with _terminal.progress_of_planning(None) as step:
        step(0, 3, "a")
        clock[0] = 0.4
        step(1, 3, "b")
        assert shown == []
        clock[0] = 0.6
        step(2, 3, "c")
    assert shown == [(2, 3, "c")]


def test_nothing_is_shown_where_nobody_looks_or_wants_to(clock, shown, monkeypatch):
    monkeypatch.setattr(sys, "stderr", io.StringIO())
    with _terminal.progress_of_planning(None) as step:
        assert step is None
    monkeypatch.setattr(sys, "stderr", Terminal())
    with _terminal.progress_of_planning(False) as step:
        assert step is None


def test_a_function_of_the_caller_is_taken_as_it_is(shown):
    def own(done, total, what):
        pass

    with _terminal.progress_of_planning(own) as step:
        assert step is own


def test_a_bar_is_drawn_and_taken_away(clock, monkeypatch):
    terminal = Terminal()
    monkeypatch.setattr(sys, "stderr", terminal)
    monkeypatch.setenv("TERM", "xterm")
    with _terminal.progress_of_planning(None) as step:
        clock[0] = 1.0
        step(1, 3, "spmv/none/csr/vector[threads_per_row=2]")
    assert "spmv/none/csr/vector[threads_per_row=2]" in terminal.getvalue()  # brackets are no markup


def test_a_notebook_shows_a_line_and_takes_it_away(clock, monkeypatch):
    lines = []

    class Handle:
        def display(self, line):
            lines.append(repr(line))

        update = display

    display = types.SimpleNamespace(DisplayHandle=Handle)
    monkeypatch.setattr(_terminal.importlib, "import_module", {"IPython.display": display}.get)
    monkeypatch.setattr(_terminal, "_in_notebook", lambda: True)
    with _terminal.progress_of_planning(None) as step:
        step(0, 3, "a")
        assert lines == []
        clock[0] = 0.6
        step(1, 3, "b")
        assert lines == ["planning", "measured 1 of 3 candidates: b"]
    assert lines[-1] == ""
