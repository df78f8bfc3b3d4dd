"""The index, and downloads from a server that misbehaves in every way that is known."""

import csv
import gzip
import hashlib
import json
import multiprocessing
import os
import pathlib
import socket
import threading

import numpy as np
import pytest
import scipy.sparse as sp

import corpus_site
import warploom
from warploom import errors
from warploom.corpus import _transfer, suitesparse

NAME = "HB/west0132"
PATH = "/MM/HB/west0132.tar.gz"
RECORD = suitesparse.index()[NAME]


def west0132(nnz=RECORD.nnz, rows=RECORD.rows, cols=RECORD.cols, seed=0):
    """A matrix of the size that the index gives, with explicit zeros."""
    random = np.random.default_rng(seed)
    places = random.choice(rows * cols, nnz, replace=False)
    values = random.random(nnz) + 0.5
    return sp.coo_array((values, (places // cols, places % cols)), shape=(rows, cols))


def with_zeros(matrix, count):
    rows, cols = np.concatenate([matrix.row, np.zeros(count, int)]), np.concatenate([matrix.col, np.arange(count)])
    return sp.coo_array((np.concatenate([matrix.data, np.zeros(count)]), (rows, cols)), shape=matrix.shape)


A = west0132()
ARCHIVE = corpus_site.archive("west0132", A, padding=3_000_000)


@pytest.fixture
def site():
    with corpus_site.serve() as site:
        site.files[PATH] = ARCHIVE
        yield site


@pytest.fixture
def cache(tmp_path, monkeypatch):
    monkeypatch.setenv("WARPLOOM_CACHE", str(tmp_path / "cache"))
    return tmp_path / "cache"


@pytest.fixture(autouse=True)
def local_only(monkeypatch):
    """Every connection to another machine is an error."""
    monkeypatch.setenv("NO_PROXY", "127.0.0.1")
    monkeypatch.setenv("no_proxy", "127.0.0.1")
    connect = socket.socket.connect

    def only_here(self, address):
        assert address[0] == "127.0.0.1", address
        return connect(self, address)

    monkeypatch.setattr(socket.socket, "connect", only_here)


def download(site, **options):
    return suitesparse.download(NAME, base_url=site.url, **{"backoff": 0.001, **options})


def ranges(site):
    return [headers.get("Range") for _, headers in site.requests]


def files(cache):
    return {path.name for path in cache.rglob("*") if path.is_file()}


COMPLETE = {"west0132.tar.gz", "west0132.tar.gz.sha256", "west0132.tar.gz.lock"}


# ----- the index -----


def test_the_index_is_the_published_one():
    index = suitesparse.index()
    assert len(index) == 2904
    assert list(index) == suitesparse.names()
    assert all(key == record.full_name for key, record in index.items())
    dwt = index["HB/dwt_361"]
    assert (dwt.rows, dwt.cols, dwt.nnz, dwt.kind, dwt.structure) == (361, 361, 2953, "structural problem", "symmetric")


def test_search_equals_a_loop_over_the_file():
    packed = pathlib.Path(suitesparse.__file__).with_name("suitesparse-index.csv.gz").read_bytes()
    expected = sorted(
        f"{row['group']}/{row['name']}"
        for row in csv.DictReader(gzip.decompress(packed).decode().splitlines())
        if "circuit" in row["kind"]
        and 1000 <= int(row["rows"]) <= 30000
        and int(row["nnz"]) <= 100000
        and row["rows"] == row["cols"]
        and row["structure"] == "unsymmetric"
        and row["values"] != "complex"
    )
    found = suitesparse.search(
        kind="*CIRCUIT*", rows=(1000, 30000), nnz=(None, 100000), square=True, structure="unsymmetric"
    )
    assert len(expected) > 20
    assert sorted(entry.name for entry in found) == expected


def test_filters():
    def names(*arguments, **filters):
        return {entry.name for entry in suitesparse.search(*arguments, **filters)}

    everything = names()
    assert len(everything) == 2904 - 49
    assert len(names(values="complex")) == 49
    assert names(values="*") == everything | names(values="complex")
    assert names(square=True) | names(square=False) == everything
    assert not names(square=True) & names(square=False)
    assert names("DWT_36?") == {"HB/dwt_361"}
    assert names(group="mycielski") == {f"Mycielski/mycielskian{k}" for k in range(2, 21)}
    assert all(name.startswith("LPnetlib/") for name in names(group="LPnet*", cols=(1, 300)))
    assert names(rows=(5, 5), cols=(5, None)) <= everything
    assert names("no such name") == set()
    with pytest.raises(errors.ParameterError, match="rows must be") as caught:
        suitesparse.search(rows=3)
    assert caught.value.argument == "rows"


def test_entry():
    entry = suitesparse.entry(NAME)
    assert (entry.name, entry.family, entry.source, entry.in_collection) == (NAME, "HB", "suitesparse", True)
    assert (entry.rows, entry.cols, entry.nnz) == (132, 132, 413)
    assert entry.licence.startswith("CC-BY 4.0")
    assert "Davis" in entry.licence
    assert "Kolodziej" in entry.licence


@pytest.mark.parametrize("name", ["HB/west0133", "west0132", "HB/../west0132", "hb/WEST0132", "../../etc/passwd"])
def test_names_that_are_not_in_the_index(name, cache):
    for function in (suitesparse.entry, suitesparse.download, suitesparse.load, suitesparse.cached):
        with pytest.raises(errors.ParameterError, match="has no") as caught:
            function(name)
        if "etc" not in name:
            assert "HB/west0132" in str(caught.value)
    assert not cache.exists()


# ----- downloads that work -----


def test_download_and_load(site, cache):
    seen = []
    path = download(site, progress=lambda done, total: seen.append((done, total)))
    assert path == suitesparse.cached(NAME) == cache / "suitesparse/MM/HB/west0132.tar.gz"
    assert path.read_bytes() == ARCHIVE
    assert files(cache) == COMPLETE
    assert (
        path.with_name("west0132.tar.gz.sha256").read_text() == f"{hashlib.sha256(ARCHIVE).hexdigest()}  {path.name}\n"
    )
    assert seen[-1] == (len(ARCHIVE), len(ARCHIVE))
    assert [done for done, _ in seen] == sorted({done for done, _ in seen})
    assert len(seen) > 5
    loaded = suitesparse.load(NAME, base_url=site.url)
    np.testing.assert_array_equal(loaded.toarray(), A.toarray())
    assert len(site.requests) == 1, "the second time it comes from the cache"
    assert site.requests[0][1]["User-Agent"] == f"warploom/{warploom.__version__}"


def test_entry_downloads_when_it_is_loaded(site, cache):
    seen = []
    entry = suitesparse.entry(NAME, base_url=site.url)
    assert site.requests == []
    np.testing.assert_array_equal(entry.load(lambda *bytes_: seen.append(bytes_)).toarray(), A.toarray())
    assert seen
    (found,) = suitesparse.search("west0132", base_url=site.url)
    assert found == entry
    np.testing.assert_array_equal(found.load().toarray(), A.toarray())


def test_cache_given_by_the_caller(site, cache, tmp_path):
    path = download(site, cache=tmp_path / "other")
    assert path == tmp_path / "other/suitesparse/MM/HB/west0132.tar.gz" == suitesparse.cached(NAME, tmp_path / "other")
    assert not cache.exists()


def test_cache_of_the_user(monkeypatch, tmp_path):
    monkeypatch.delenv("WARPLOOM_CACHE", raising=False)
    monkeypatch.setattr("platformdirs.user_cache_path", lambda name, appauthor: tmp_path / name)
    assert suitesparse.cached(NAME) == tmp_path / "warploom/suitesparse/MM/HB/west0132.tar.gz"


def test_redirection_as_on_the_site(site, cache):
    site.redirect = site.url
    site.cuts = [100_000]
    assert download(site).read_bytes() == ARCHIVE
    assert ranges(site) == [None, None, "bytes=100000-", "bytes=100000-"]


@pytest.mark.parametrize("length", [True, False])
def test_server_that_does_not_say_how_long_a_file_is(site, cache, length):
    site.length = length
    totals = set()
    download(site, progress=lambda done, total: totals.add(total))
    assert totals == ({len(ARCHIVE)} if length else {None})


def test_an_answer_without_a_length_may_not_be_endless(site, cache, monkeypatch):
    site.length = False
    monkeypatch.setattr(_transfer, "MOST_WITHOUT_LENGTH", len(ARCHIVE) - 1)
    with pytest.raises(errors.DownloadError, match=f"does not say how long .* more than {len(ARCHIVE) - 1} bytes"):
        download(site)
    assert not any(name.endswith((".tar.gz", ".part", ".json")) for name in files(cache)), "nothing is kept of it"
    monkeypatch.setattr(_transfer, "MOST_WITHOUT_LENGTH", len(ARCHIVE))
    assert download(site).read_bytes() == ARCHIVE


def test_explicit_zeros_may_be_stored(site, cache):
    site.files[PATH] = corpus_site.archive("west0132", with_zeros(A, RECORD.explicit_zeros))
    assert suitesparse.load(NAME, base_url=site.url).nnz == RECORD.nnz + RECORD.explicit_zeros


# ----- cut connections -----


def test_a_cut_transfer_is_continued(site, cache):
    site.cuts = [1_000_000, 500_000, 7]
    assert download(site, attempts=2).read_bytes() == ARCHIVE
    assert ranges(site) == [None, "bytes=1000000-", "bytes=1500000-", "bytes=1500007-"]
    assert {headers.get("If-Range") for _, headers in site.requests[1:]} == {site.etag(PATH)}
    assert files(cache) == COMPLETE


def test_a_later_call_continues(site, cache):
    site.cuts = [1_000_000]
    with pytest.raises(errors.DownloadError, match="1000000 bytes have arrived and are kept") as caught:
        download(site, attempts=1)
    assert site.url + PATH in str(caught.value)
    assert files(cache) == {"west0132.tar.gz.part", "west0132.tar.gz.part.json", "west0132.tar.gz.lock"}
    seen = []
    assert download(site, progress=lambda done, total: seen.append((done, total))).read_bytes() == ARCHIVE
    assert ranges(site) == [None, "bytes=1000000-"]
    assert seen[0][0] > 1_000_000
    assert seen[-1] == (len(ARCHIVE), len(ARCHIVE))


def test_a_transfer_that_the_user_stops_is_continued(site, cache):
    def stop(done, total):
        if done > 1_000_000:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        download(site, progress=stop)
    arrived = suitesparse.cached(NAME).with_name("west0132.tar.gz.part").stat().st_size
    assert arrived > 1_000_000
    assert download(site).read_bytes() == ARCHIVE
    assert ranges(site) == [None, f"bytes={arrived}-"]


def test_last_modified_serves_where_there_is_no_strong_etag(site, cache):
    site.weak, site.modified = True, "Wed, 21 Oct 2015 07:28:00 GMT"
    site.cuts = [1_000_000]
    assert download(site).read_bytes() == ARCHIVE
    assert site.requests[1][1]["If-Range"] == site.modified
    assert ranges(site) == [None, "bytes=1000000-"]


@pytest.mark.parametrize("weak", [True, False])
def test_without_a_version_nothing_is_continued(site, cache, weak):
    site.etags, site.weak = weak, weak
    site.cuts = [1_000_000]
    assert download(site).read_bytes() == ARCHIVE
    assert ranges(site) == [None, None]


def test_server_without_ranges(site, cache):
    site.ranges = False
    site.cuts = [1_000_000, 2_000_000]
    assert download(site).read_bytes() == ARCHIVE
    assert len(site.requests) == 3


def test_server_without_ranges_that_always_cuts(site, cache):
    site.ranges = False
    site.cuts = [1_000_000] * 20
    with pytest.raises(errors.DownloadError, match="cut"):
        download(site, attempts=3)
    assert len(site.requests) == 3


def test_attempts_count_anew_while_something_arrives(site, cache):
    site.cuts = [100_000] * 12
    assert download(site, attempts=2).read_bytes() == ARCHIVE
    assert len(site.requests) == 13


@pytest.mark.parametrize("honours_if_range", [True, False])
def test_file_that_has_changed_since(site, cache, honours_if_range):
    site.honours_if_range = honours_if_range
    site.cuts = [1_000_000]
    with pytest.raises(errors.DownloadError):
        download(site, attempts=1)
    changed = corpus_site.archive("west0132", west0132(seed=1), padding=2_000_000)
    site.files[PATH] = changed
    assert download(site).read_bytes() == changed


def test_file_that_is_shorter_than_what_has_arrived(site, cache):
    site.cuts = [2_000_000]
    with pytest.raises(errors.DownloadError):
        download(site, attempts=1)
    site.files[PATH] = corpus_site.archive("west0132", A)
    site.honours_if_range = False
    assert download(site).read_bytes() == site.files[PATH]
    assert ranges(site) == [None, "bytes=2000000-", None]


def test_process_that_ended_before_the_last_step(site, cache):
    site.cuts = [1_000_000]
    with pytest.raises(errors.DownloadError):
        download(site, attempts=1)
    part = suitesparse.cached(NAME).with_name("west0132.tar.gz.part")
    part.write_bytes(ARCHIVE)
    assert download(site).read_bytes() == ARCHIVE
    assert ranges(site) == [None, f"bytes={len(ARCHIVE)}-"]


@pytest.mark.parametrize("notes", [None, "", "[]", "{", '{"url": "http://elsewhere"}', '{"validator": 3}'])
def test_notes_that_are_lost(site, cache, notes):
    site.cuts = [1_000_000]
    with pytest.raises(errors.DownloadError):
        download(site, attempts=1)
    path = suitesparse.cached(NAME).with_name("west0132.tar.gz.part.json")
    assert json.loads(path.read_text())["url"] == site.url + PATH
    path.unlink() if notes is None else path.write_text(notes)
    assert download(site).read_bytes() == ARCHIVE
    assert ranges(site) == [None, None]


# ----- servers that refuse -----


def test_missing_file(site, cache):
    del site.files[PATH]
    with pytest.raises(errors.DownloadError, match=f"{site.url}{PATH}: the server answers 404") as caught:
        download(site)
    assert isinstance(caught.value, OSError)
    assert len(site.requests) == 1, "asking again would not help"
    assert files(cache) == {"west0132.tar.gz.lock"}


@pytest.mark.parametrize("status", [500, 502, 503, 429])
def test_busy_server_is_asked_again(site, cache, status):
    site.statuses = [status, status]
    assert download(site).read_bytes() == ARCHIVE
    assert len(site.requests) == 3


def test_busy_server_is_not_asked_forever(site, cache):
    site.statuses = [503] * 20
    with pytest.raises(errors.DownloadError, match="503 Service Unavailable"):
        download(site, attempts=4)
    assert len(site.requests) == 4


def test_pauses(site, cache, monkeypatch):
    pauses = []
    monkeypatch.setattr(_transfer.time, "sleep", pauses.append)
    site.statuses = [503] * 4
    download(site, backoff=0.5)
    assert pauses == [0.5, 1, 2, 4]
    pauses.clear()
    site.statuses, site.retry_after = [429, 429], "7"
    download(site, cache=cache / "b", backoff=0.5)
    assert pauses == [7, 7]
    pauses.clear()
    site.statuses, site.retry_after = [429], "100000"
    download(site, cache=cache / "c")
    assert pauses == [60]


def test_no_server(cache):
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        url = f"http://127.0.0.1:{listener.getsockname()[1]}"
    with pytest.raises(errors.DownloadError, match=f"{url}{PATH}: cannot be read, is the network up"):
        suitesparse.download(NAME, base_url=url, attempts=2, backoff=0.001)


def test_server_that_falls_silent(cache):
    with socket.create_server(("127.0.0.1", 0)) as listener:
        url = f"http://127.0.0.1:{listener.getsockname()[1]}"
        with pytest.raises(errors.DownloadError, match="timed out"):
            suitesparse.download(NAME, base_url=url, attempts=1, timeout=0.05)


def test_the_second_site_is_tried(site, cache):
    with corpus_site.serve() as empty:
        path = suitesparse.download(NAME, base_url=[empty.url, f"{site.url}/"], backoff=0.001)
        assert len(empty.requests) == 1
    assert path.read_bytes() == ARCHIVE


def test_every_site_fails(site, cache):
    del site.files[PATH]
    with corpus_site.serve() as empty, pytest.raises(errors.DownloadError) as caught:
        suitesparse.download(NAME, base_url=(site.url, empty.url))
    assert site.url in str(caught.value)
    assert empty.url in str(caught.value)


def test_no_site_at_all(cache):
    with pytest.raises(errors.ParameterError, match="must name a site") as caught:
        suitesparse.download(NAME, base_url=[])
    assert caught.value.argument == "base_url"


# ----- what arrives is wrong -----


@pytest.mark.parametrize(
    ("content", "words"),
    [
        (b"<html>We have moved</html>", "not an intact .tar.gz"),
        (ARCHIVE[:-9], "not an intact .tar.gz"),
        (ARCHIVE[:5000] + b"x" + ARCHIVE[5001:], "not an intact .tar.gz|does not|NAME"),
        (corpus_site.archive("west0132", west0132(rows=131)), "131 rows and 132 columns, the index says 132 and 132"),
        (corpus_site.archive("west0132", west0132(cols=133)), "132 rows and 133 columns"),
        (corpus_site.archive("west0132", sp.coo_array((1, 2**31))), "2147483648 columns are beyond"),
        (corpus_site.archive("west0132", west0132(nnz=415)), "415 entries, the index says 413 and 1 zeros"),
    ],
)
def test_wrong_content(site, cache, content, words):
    site.files[PATH] = content
    with pytest.raises(errors.DownloadError, match=words) as caught:
        download(site)
    assert site.url + PATH in str(caught.value)
    assert files(cache) == {"west0132.tar.gz.lock"}, "nothing wrong is kept"
    site.files[PATH] = ARCHIVE
    assert download(site).read_bytes() == ARCHIVE


def test_too_few_entries_are_found_when_the_matrix_is_read(site, cache):
    site.files[PATH] = corpus_site.archive("west0132", west0132(nnz=400))
    with pytest.raises(errors.FileFormatError, match="400 entries, the index says 413") as caught:
        suitesparse.load(NAME, base_url=site.url)
    assert str(suitesparse.cached(NAME)) in str(caught.value)


def test_checksum_given_by_the_caller(site, cache):
    right = hashlib.sha256(ARCHIVE).hexdigest()
    with pytest.raises(errors.DownloadError, match=f"SHA-256 is {right}, not {'0' * 64}"):
        download(site, sha256="0" * 64)
    assert files(cache) == {"west0132.tar.gz.lock"}
    assert download(site, sha256=right.upper()).read_bytes() == ARCHIVE
    assert len(site.requests) == 2
    download(site, sha256=right.upper())
    assert len(site.requests) == 2


@pytest.mark.parametrize("damage", ["byte", "cut", "no record", "wrong record", "empty record"])
def test_damaged_file_in_the_cache(site, cache, damage):
    path = download(site)
    record = path.with_name("west0132.tar.gz.sha256")
    if damage == "byte":
        path.write_bytes(ARCHIVE[:-1] + bytes([ARCHIVE[-1] ^ 1]))
    elif damage == "cut":
        path.write_bytes(ARCHIVE[:1000])
    elif damage == "no record":
        record.unlink()
    else:
        record.write_text("0" * 64 if damage == "wrong record" else "")
    assert download(site).read_bytes() == ARCHIVE
    assert len(site.requests) == 2
    assert record.read_text().startswith(hashlib.sha256(ARCHIVE).hexdigest())


# ----- disks -----


def test_full_disk_is_found_before_the_transfer(site, cache, monkeypatch):
    monkeypatch.setattr(_transfer.shutil, "disk_usage", lambda path: type("Usage", (), {"free": 1000}))
    with pytest.raises(errors.DownloadError, match=r"no space left.*WARPLOOM_CACHE") as caught:
        suitesparse.download(NAME, base_url=[site.url, site.url])
    assert site.url + PATH in str(caught.value)
    assert len(site.requests) == 1, "another site would not help"


@pytest.mark.skipif(not os.path.exists("/dev/full"), reason="needs /dev/full")
def test_disk_that_fills_up(site, cache):
    target = suitesparse.cached(NAME)
    target.parent.mkdir(parents=True)
    target.with_name("west0132.tar.gz.part").symlink_to("/dev/full")
    with pytest.raises(errors.DownloadError, match=r"no space left.*WARPLOOM_CACHE"):
        download(site)
    assert len(site.requests) == 1
    assert not target.exists()


def test_cache_that_cannot_be_written(site, tmp_path):
    (tmp_path / "file").write_text("")
    with pytest.raises(errors.DownloadError, match=r"cannot write .*WARPLOOM_CACHE") as caught:
        download(site, cache=tmp_path / "file")
    assert caught.value.argument == "cache"


@pytest.mark.parametrize("library", ["requests", "filelock", "platformdirs"])
def test_libraries_that_are_not_installed(site, monkeypatch, tmp_path, library):
    monkeypatch.delenv("WARPLOOM_CACHE", raising=False)
    monkeypatch.setitem(__import__("sys").modules, library, None)
    with pytest.raises(errors.DownloadError, match=rf"{library}: pip install 'warploom\[corpus\]'"):
        download(site, **({} if library == "platformdirs" else {"cache": tmp_path}))


# ----- several at once -----


def test_threads_download_once(site, cache):
    site.gate = threading.Barrier(4)
    found = []
    threads = [threading.Thread(target=lambda: found.append(download(site).read_bytes())) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert found == [ARCHIVE] * 4
    assert len(site.requests) == 1
    assert files(cache) == COMPLETE


def _download(url, cache, results):
    path = suitesparse.download(NAME, cache, base_url=url, backoff=0.001)
    results.put(hashlib.sha256(path.read_bytes()).hexdigest())


def test_processes_do_not_disturb_each_other(site, cache):
    site.cuts = [1_000_000, 500_000]
    context = multiprocessing.get_context("spawn")
    results = context.Queue()
    processes = [context.Process(target=_download, args=(site.url, cache, results)) for _ in range(2)]
    for process in processes:
        process.start()
    digests = [results.get(timeout=30) for _ in processes]
    for process in processes:
        process.join()
    assert digests == [hashlib.sha256(ARCHIVE).hexdigest()] * 2
    assert len(site.requests) == 3
    assert files(cache) == COMPLETE
