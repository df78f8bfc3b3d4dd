from __future__ import annotations

import sys

from warploom._discovery import import_modules


def test_modules_are_imported_in_the_order_of_their_names(tmp_path, monkeypatch):
    root = tmp_path / "discovered"
    for name in ("b", "a", "_private", "room/__init__", "room/c", "data/file"):
        path = root / f"{name}.py"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text("import discovered\ndiscovered.SEEN.append(__name__)\n")
    (root / "__init__.py").write_text("SEEN = []\n")
    monkeypatch.syspath_prepend(tmp_path)
    import_modules("discovered")
    found = sys.modules["discovered"]
    assert [f"discovered.{name}" for name in ("a", "b", "room", "room.c")] == found.SEEN
    import_modules("discovered")
    assert len(found.SEEN) == 4
    for name in [name for name in sys.modules if name.partition(".")[0] == "discovered"]:
        monkeypatch.delitem(sys.modules, name)


def test_a_package_may_ask_for_its_own_modules_while_it_is_imported(tmp_path, monkeypatch):
    root = tmp_path / "registering"
    root.mkdir()
    (root / "__init__.py").write_text(
        "from warploom._discovery import import_modules\nNAMES = []\nimport_modules(__name__)\n"
    )
    (root / "one.py").write_text("from registering import NAMES\nNAMES.append(__name__)\n")
    monkeypatch.syspath_prepend(tmp_path)
    import registering

    assert registering.NAMES == ["registering.one"]
    for name in ("registering", "registering.one"):
        monkeypatch.delitem(sys.modules, name)
