"""What the documentation shows runs."""

import csv
import doctest
import html
import importlib.util
import os
import pkgutil
import re
import subprocess
import sys
from pathlib import Path

import click
import nbformat
import numpy as np
import pytest

import executed_notebooks
import warploom as wl
from products import assert_product
from warploom.bench import Measurements, orders
from warploom.candidates import kernels, parse
from warploom.cli import main
from warploom.reproduce import items
from warploom.training.blend import LEAST_GAIN, SHARES

ROOT = Path(__file__).parents[2]
README = (ROOT / "README.md").read_text()
DOCS = ROOT / "docs"
PAGES = sorted(
    path.relative_to(DOCS).as_posix()
    for folder in (".", "concepts", "concepts/formats", "guide")
    for path in (DOCS / folder).glob("*.md")
)
LEFT_OUT = {"__main__", "_core"} | (set() if importlib.util.find_spec("torch") else {"torch"})
MODULES = [
    module.name
    for module in pkgutil.walk_packages(wl.__path__, "warploom.")
    if module.name.removeprefix("warploom.").split(".")[0] not in LEFT_OUT
]
EXAMPLES = [
    test
    for module in ["warploom", *MODULES]
    for test in doctest.DocTestFinder(exclude_empty=True).find(importlib.import_module(module))
    if test.examples
]


@pytest.mark.parametrize("test", EXAMPLES, ids=lambda test: test.name)
def test_docstring(test):
    runner = doctest.DocTestRunner(optionflags=doctest.ELLIPSIS | doctest.NORMALIZE_WHITESPACE)
    assert runner.run(test).failed == 0


@pytest.mark.parametrize("page", sorted(path.name for path in (DOCS / "api").glob("*.rst")))
def test_pages_of_the_reference_have_examples(page):
    """What a page describes has an example, which `test_docstring` runs."""
    text = (DOCS / "api" / page).read_text()
    (name, *_) = re.findall(r"^\.\. (?:currentmodule|automodule):: (\S+)", text, re.MULTILINE)
    if name.split(".")[-1] in LEFT_OUT:
        pytest.skip(f"{name} needs a package that is not installed")
    module = importlib.import_module(name)
    listed = getattr(module, "__all__", None) or re.findall(r"^\.\. auto(?:function|class):: (\S+)", text, re.MULTILINE)
    described = [getattr(module, item) for item in listed]
    names = {f"{getattr(thing, '__module__', '')}.{getattr(thing, '__qualname__', '')}" for thing in described}
    assert any(test.name == name or test.name.startswith(f"{name}.") for test in EXAMPLES for name in names)


def test_docstrings_of_the_main_functions_have_examples():
    assert {"warploom.plan.plan", "warploom.plan.spmm", "warploom.plan.spmv", "warploom.candidates.candidates"} <= {
        t.name for t in EXAMPLES
    }


PACKAGES = {"guide/pytorch.md": ["torch"], "guide/graph-networks.md": ["torch", "torch_geometric"]}
"""What the Python of a page needs and the tests do without."""


def python_blocks(text):
    return re.findall(r"^```python\n(.*?)^```", text, re.MULTILINE | re.DOTALL)


def test_python_of_the_readme(capsys):
    names = {}
    for block in python_blocks(README):
        exec(compile(block, "README.md", "exec"), names)
    A = names["A"]
    assert_product(A, np.ones((A.shape[1], 128)), np.asarray(names["C"]))
    assert_product(A, np.ones((A.shape[1], 1)), names["y"][:, None])
    assert names["plan"].candidate in capsys.readouterr().out


@pytest.mark.parametrize("page", [page for page in PAGES if python_blocks((DOCS / page).read_text())])
def test_python_of_a_page(page, tmp_path, monkeypatch, capsys):
    """Its blocks run one after another, and print the numbers in the comments beside them."""
    monkeypatch.chdir(tmp_path)
    for package in PACKAGES.get(page, ()):
        pytest.importorskip(package)
    names = {}
    for block in python_blocks((DOCS / page).read_text()):
        exec(compile(block, page, "exec"), names)
        output = capsys.readouterr().out.splitlines()
        for numbers in re.findall(r"^print.*  # (\d[\d ]*)$", block, re.MULTILINE):
            assert numbers in output


def test_the_readme_is_short():
    assert len(README.split()) <= 1300


DOCUMENTS = {"README.md": README, **{page: (DOCS / page).read_text() for page in PAGES}}


def test_candidates_that_are_named_exist():
    texts = [text for document in DOCUMENTS.values() for text in re.findall(r"`([^`\n]+)`", document)]
    named = [text for text in texts if re.fullmatch(r"spm[mv]/(?!float)[^*]+/[^*]+/[^*]+", text)]  # no settings
    assert {parse(name).kernel.op for name in named} == {"spmm", "spmv"}
    patterns = [found for text in DOCUMENTS.values() for found in re.findall(r"--candidates '(.+?)'", text)]
    assert patterns
    for pattern in patterns:
        assert wl.candidates(op=pattern[:4], match=pattern)


@pytest.fixture(scope="module")
def site(tmp_path_factory):
    """The documentation, built with warnings as errors; its notebooks are those that were executed for their tests."""
    pytest.importorskip("torch")  # which a notebook trains with
    folder = tmp_path_factory.mktemp("site")
    for name in executed_notebooks.NAMES:
        path = folder / "notebooks" / f"{name}.ipynb"
        path.parent.mkdir(exist_ok=True)
        nbformat.write(executed_notebooks.execute(name), path)
    command = [sys.executable, "-m", "sphinx", "-q", "-E", "-W", "--keep-going", "-d", folder / "doctrees", DOCS]
    environment = os.environ | {"WARPLOOM_EXECUTED_NOTEBOOKS": str(folder / "notebooks")}
    built = subprocess.run([*command, folder / "html"], env=environment, capture_output=True, text=True, check=False)
    assert built.returncode == 0, built.stderr
    return folder / "html"


def test_every_page_of_the_site_is_there(site):
    pages = {path.relative_to(site).with_suffix("").as_posix() for path in site.rglob("*.html")}
    assert {page.removesuffix(".md") for page in PAGES} <= pages
    assert {f"notebooks/{name}" for name in executed_notebooks.NAMES} <= pages
    assert "plan" in (site / "api" / "warploom.html").read_text()


def table_rows(page):
    """Return the rows of the tables of a page as lists of cells."""
    rows = re.findall(r"<tr[^>]*>(.*?)</tr>", page.read_text(), re.DOTALL)
    cells = (re.findall(r"<t[dh][^>]*>(.*?)</t[dh]>", row, re.DOTALL) for row in rows)
    return [[html.unescape(re.sub(r"<[^>]+>", "", cell)).strip() for cell in row] for row in cells]


def test_tables_of_the_site_have_every_kernel_and_permutation(site):
    kernel_names = [f"{kernel.format}/{kernel.name}" for op in ("spmm", "spmv") for kernel in kernels(op)]
    found = [row[0] for row in table_rows(site / "concepts" / "kernels.html") if "/" in row[0]]
    assert found == kernel_names
    assert set(wl.permutations.names()) <= {row[0] for row in table_rows(site / "concepts" / "permutations.html")}


def test_figures_of_the_readme_are_those_of_the_measurements(site):
    """The tables of the site are made from the measurements and the profile when it is built."""
    measured = {row[0]: row for row in table_rows(site / "measured.html") if len(row) == 7 and "/" in row[2]}
    quality = {row[0]: row for row in table_rows(site / "guide" / "profiles.html") if len(row) == 9}
    title = "short lists measured: families left out"
    column = quality["selector"].index(title)
    rows = re.findall(r"^\| (Sp[^|]+) \| ([^|]+) \| ([^|]+) \| ([^|]+) \| ([^|]+) \|$", README, re.MULTILINE)
    assert len(rows) >= 5
    for setting, *shown, choice in rows:
        assert measured[setting][1:4] == shown
        selector = re.sub(", k = .*", "", setting)
        shares = [quality[f"{selector}, {cache}"][column].split(" (")[0] for cache in ("warm", "cold")]
        assert " / ".join(shares) == choice


def test_figures_about_choosing_are_those_of_the_table():
    with open(DOCS / "static" / "choices.csv", newline="") as stream:
        rows = list(csv.DictReader(stream))

    def of(chosen, column):
        values = [float(v) for row in rows if chosen(row) for v in row[column].split(" / ")]
        return f"{min(values):.0f} to {max(values):.0f} %"

    def large(row):
        return row["matrices"].startswith("10^6")

    def wide(row):
        return large(row) or row["setting"].startswith("spmm")

    def small(row):
        return row["matrices"].startswith("below")

    text = " ".join((DOCS / "guide" / "profiles.md").read_text().split())
    readme = " ".join(README.split())
    assert f"above, {of(large, 'one candidate')}, models" in readme
    assert f"for SpMM {of(lambda row: row['setting'].startswith('spmm'), 'one candidate')} and 99 %" in readme
    assert f"one candidate reaches {of(wide, 'one candidate')} of the speed" in text
    assert f"the rule {of(wide, 'three splits')}, models {of(wide, 'all features')}" in text
    assert f"unsure {of(wide, 'measured')}" in text
    for column, words in (("one candidate", "is within {} of the fastest"), ("three splits", "the rule within {};")):
        lost = [100 - float(v) for row in rows if small(row) for v in row[column].split(" / ")]
        assert words.format(f"{min(lost):.1f} to {max(lost):.1f} %") in text
    gained = [100 / float(row["no orders"]) * 100 - 100 for row in rows if row["matrices"].startswith("all")]
    said = f"{min(gained):.1f} to {max(gained):.1f} %"
    assert f"Row orders add {said}" in readme
    assert f"**Row orders** add {said}" in text


def test_figures_about_choosing_for_large_matrices_are_those_of_the_table():
    with open(DOCS / "static" / "choices-large.csv", newline="") as stream:
        rows = list(csv.DictReader(stream))
    ops = ("spmv/float64", "spmm/float32/row/k=32", "spmm/float32/row/k=128")

    def of(way, column, label="all"):
        found = {row["setting"]: row for row in rows if row["matrices"].startswith(label) and row["chosen by"] == way}
        return [found[setting][column] for setting in ops]

    text = " ".join((DOCS / "guide" / "profiles.md").read_text().split())
    alone, measured, rule, one = (
        of(way, "speed") for way in ("all features", "measured", "three splits", "one candidate")
    )
    assert f"models reach {alone[0]} % of the fastest, {measured[0]} % where unsure" in text
    assert f"three splits {rule[0]} %, one candidate {one[0]} %" in text
    assert f"{alone[1]} % for k = 32 and {alone[2]} % for k = 128, {measured[1]} and {measured[2]} % measured" in text
    assert f"the rule {rule[1]} and {rule[2]} %" in text
    poor = of("measured", "below 85 %")
    assert f"{poor[0]} % of the matrices stay below 85 %" in text
    assert f"measured, {poor[1]} and {poor[2]} % for SpMM" in text
    found = wl.profiles.find("NVIDIA H200").profile.metrics["selectors"].items()
    # The further sweep of column-major operands has small matrices, too.
    further = [facts["further"] for name, facts in found if "further" in facts and "column" not in name]
    unsure = [100 * facts["families_measured"]["measured"] for facts in further]
    assert f"{min(unsure):.0f} to {max(unsure):.0f} % of the large matrices count as unsure" in text
    best, chosen = (of(way, "over the vendor's best", "irregular") for way in ("own", "all features"))
    assert f"own kernel is {best[0]} times" in text
    assert f"{best[1]} times for k = 32 and {best[2]} times for k = 128" in text
    assert f"choice {chosen[0]}, {chosen[1]} and {chosen[2]} times" in text
    ranges = [sorted(float(share) for share in shares)[::2] for shares in (alone, measured)]
    low, high = (" to ".join(dict.fromkeys(f"{share:.0f}" for share in of_range)) + " %" for of_range in ranges)
    assert f"choices reach {low} of the fastest, {high} measured" in " ".join(README.split())


def test_blends_are_better_than_the_trees_that_ship():
    trees, networks = (wl.profiles.find("NVIDIA H200", model=model).profile for model in ("trees", "network"))
    blends = networks.metrics.get("blend")
    if blends is None:
        pytest.skip("networks that were trained before blends")
    assert trees.data_hash == networks.data_hash
    chooser = trees.selector(networks)
    for name, facts in blends.items():
        assert name in chooser.names()
        assert facts["families_over"] >= LEAST_GAIN
        assert facts["share"] in SHARES
        if "further" not in facts:
            alone = trees.metrics["selectors"][name]["families"]["oracle_share"][0]
            assert facts["families"]["oracle_share"][0] > alone


def test_figures_about_row_orders_are_those_of_the_measurements():
    measured = Measurements.load("h200-large").select(
        setting=("spmv/float64", "spmm/float32/row/k=32", "spmm/float32/row/k=128")
    )
    gains = orders.gains(measured).frame.set_index(["setting", "arrangement", "matrices of"])
    settings = gains.index.get_level_values("setting").unique()
    page = (DOCS / "concepts" / "permutations.md").read_text()
    text, readme = " ".join(page.split()), " ".join(README.split())
    rows = re.findall(r"^\| ((?:natural|half|random)[^|]*) \| ([^|]+) \| ([^|]+) \| ([^|]+) \|$", page, re.M)
    labels = {
        "natural order": ("natural", "all"),
        "half of the rows moved": ("half", "all"),
        "random order": ("shuffled", "all"),
        "random order, rows with neighbours": ("shuffled", "with neighbours"),
        "random order, real by origin": ("shuffled", "real by origin"),
        "random order, real": ("shuffled", "real"),
    }
    assert len(rows) == len(labels) + 1
    for label, *shown in rows[:-1]:
        *words, count = label.removesuffix(" matrices").split(", ")
        found = [gains.loc[(setting, *labels[", ".join(words)])] for setting in settings]
        assert [f"{line['an order chosen']:.2f}" for line in found] == shown
        assert int(count) == max(line["matrices"] for line in found)
    shuffled = [gains.loc[(setting, "shuffled", "all")] for setting in settings]
    assert rows[-1][1:] == tuple(
        f"{100 * line['of natural, as given']:.0f} %, {100 * line['of natural']:.0f} %" for line in shuffled
    )
    natural, near = (
        [gains.loc[(setting, *of), "an order chosen"] for setting in settings]
        for of in (("natural", "all"), ("shuffled", "with neighbours"))
    )
    low, middle, high = (f"{line['an order chosen']:.2f}" for line in shuffled)
    assert f"gains {low} times for SpMV and {middle} to {high} for SpMM" in text
    assert f"{100 * min(natural) - 100:.0f} to {100 * max(natural) - 100:.0f} % to large matrices" in readme
    assert f"these gain {low} times for SpMV and {middle} to {high} for SpMM, meshes" in readme
    assert "communities {:.2f} and {:.2f} to {:.2f} ".format(*near) in readme
    both = orders.rows_and_columns(measured).frame.set_index(["setting", "order", "matrices of"])
    found = [both.loc[(setting, "community", "all")] for setting in settings]
    assert {line["matrices"] for line in found} == {12}
    shares = [f"{100 * line['of natural']:.0f} %" for line in found]
    low, high = (share.removesuffix(" %") for share in shares[1:])
    assert f"SpMV has {shares[0]} of the speed of the natural order and SpMM {low} and {high} %." in text
    costs = orders.costs(measured).frame.set_index(["setting", "order"])
    for order in ("minhash", "rcm", "community"):
        assert re.search(
            rf"`{order}` (?:takes )?{costs.loc[(settings[0], order), 'ms for 10^6 nonzeros']:.0f} ms", text
        )
    for setting, words in (
        (settings[2], "after {}, {} and {} products"),
        (settings[0], "after {}, {} and {} for SpMV"),
    ):
        paid = [f"{costs.loc[(setting, order), 'pays off after']:,.0f}" for order in ("minhash", "rcm", "community")]
        assert words.format(*paid) in text


def test_figures_of_the_cpu_are_those_of_its_record():
    """And no plan of it is more than 2 % slower than SciPy, on one or two threads."""
    with open(DOCS / "static" / "cpu.csv", newline="") as stream:
        rows = list(csv.DictReader(stream))
    text = (DOCS / "guide" / "cpu.md").read_text()
    table = re.findall(
        r"^\| (Sp[^|]+) \| ([^|]+) \| (\d+) \| ([\d.]+) \(([\d.]+)\) \| ([\d.]+) \(([\d.]+)\) \|$", text, re.M
    )
    products = {"SpMV": ("spmv", "1"), "SpMM, k = 8": ("spmm", "8"), "SpMM, k = 32": ("spmm", "32")}
    bounds = {"10^3 to 10^5": (0, 2e5), "3 * 10^5 to 3 * 10^6": (2e5, 5e6), "10^7": (5e6, 1e9)}
    assert len(table) == 8
    for product, size, count, *figures in table:
        low, high = bounds[size]
        chosen = [row for row in rows if (row["op"], row["k"]) == products[product] and low <= float(row["nnz"]) < high]
        for threads, mean, least in (("1", *figures[:2]), ("2", *figures[2:])):
            ratios = [float(row["ratio"]) for row in chosen if row["threads"] == threads]
            assert len(ratios) == int(count)
            assert abs(float(np.exp(np.mean(np.log(ratios)))) - float(mean)) < 0.0051
            assert abs(min(ratios) - float(least)) < 0.0051
    assert len({(row["family"], row["nnz"]) for row in rows}) == 100
    assert min(float(row["ratio"]) for row in rows) >= 0.98


def test_notebooks_of_the_site_have_outputs(site):
    for name in executed_notebooks.NAMES:
        text = (site / "notebooks" / f"{name}.html").read_text()
        assert re.search(r'src="(data:image/png;base64,|\.\./_images/[0-9a-f]{64}\.png)', text), name


def test_pictures_of_the_site_show_every_format_and_permutation(site):
    for folder, names in (("formats", wl.formats.names()), ("permutations", wl.permutations.names())):
        for name in names:
            page = f"formats/{name.replace('-', '_')}" if folder == "formats" else folder
            text = (site / "concepts" / f"{page}.html").read_text()
            assert f'_images/{name}.png"' in text
            assert (site / "_images" / f"{name}.png").exists()


def test_reports_of_the_site_have_every_item_and_its_files(site):
    text = "".join(path.read_text() for path in (site / "reports").glob("*20*.html"))
    for item in items():
        assert f"{item.id}: " in text
    files = set(re.findall(r'(?:href|src)="([MGDC]-[^"/]+\.(?:png|svg|csv))"', text))
    assert len(files) > 100
    assert all((site / "reports" / file).exists() for file in files)


def test_command_line_of_the_site_has_every_command(site):
    text = re.sub(r"<[^>]+>", "", (site / "guide" / "command-line.html").read_text())
    context = click.Context(main)
    for name in main.list_commands(context):
        command = main.get_command(context, name)
        for path in [name, *(f"{name} {inner}" for inner in getattr(command, "commands", ()))]:
            assert f"warploom {path} [OPTIONS]" in text, path


@pytest.mark.parametrize("document", ["README.md", "CONTRIBUTING.md", *(f"docs/{page}" for page in PAGES)])
def test_files_that_are_mentioned_exist(document):
    text = (ROOT / document).read_text()
    scripts = set(re.findall(r"(?:python3?|bash) ((?:benchmarks|tests|tools|\.ci)/[\w./]+)", text))
    assert all((ROOT / path).exists() for path in scripts), scripts
    linked = {path for path in re.findall(r"\]\(((?!http)[\w./-]+)(?:#[\w-]+)?\)", text) if "reports/" not in path}
    folder = (ROOT / document).parent
    assert all(_stored(folder / path).exists() for path in linked), linked
    assert scripts or linked or document.startswith("docs/")


def _stored(path):
    """Return where a link leads in the checkout: notebooks get into the pages' folder when the site is built."""
    path = Path(os.path.normpath(path))
    return executed_notebooks.FOLDER / path.name if path.parent == DOCS / "notebooks" else path
