"""Random graphs without geometry: the models of network science."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt
import scipy.sparse

from warploom.corpus.constructions import _random
from warploom.corpus.constructions._adjacency import directed, undirected
from warploom.corpus.constructions._arguments import integer_in, size_at_most
from warploom.corpus.constructions._assemble import from_coordinates
from warploom.corpus.constructions._registry import construction
from warploom.corpus.constructions._sampling import copied, power_law_counts, stubs
from warploom.errors import ParameterError

__all__ = [
    "citation",
    "erdos_renyi",
    "hierarchical_graph",
    "hub_graph",
    "hypersparse_graph",
    "kron_g500",
    "power_law",
    "preferential_attachment",
    "random_bipartite",
    "random_directed",
    "random_regular",
    "random_tree",
    "ratings",
    "rmat",
    "small_world",
    "stochastic_block",
    "web_crawl",
]

_MOST_ROWS = 10**8
_MOST_DRAWS = 2**30


@construction(family="recursive matrix", kind="undirected multigraph")
def kron_g500(scale: int, edge_factor: int = 16, seed: int = 1, shuffle: int = 0) -> scipy.sparse.csr_array:
    """Stochastic Kronecker graph of the Graph500 benchmark.

    Parameters
    ----------
    scale : int
        From 2 to 26. The graph has ``2**scale`` vertices.
    edge_factor : int
        Edges drawn per vertex, at least 1; 48 comes near the collection's ``DIMACS10/kron_g500-logn<scale>``. Loops and
        repetitions are dropped.
    seed : int
        Seed for the edges.
    shuffle : int
        0 for the order of the recursion, in which vertices with more bits set have fewer neighbours; else the seed of a
        random order, as Graph500 asks for.

    Returns
    -------
    scipy.sparse.csr_array
        Adjacency, at most ``2 * edge_factor * 2**scale`` entries.
    """
    integer_in("scale", scale, 2, 26)
    integer_in("edge_factor", edge_factor, 1, 2**12)
    size_at_most("edges", edge_factor << scale, _MOST_DRAWS, "edge_factor")
    return undirected(2**scale, *_recursive_draws(scale, edge_factor << scale, (57, 19, 19), seed), shuffle=shuffle)


@construction(family="recursive matrix", kind="directed graph")
def rmat(
    scale: int, edge_factor: int = 8, a: int = 57, b: int = 19, c: int = 19, seed: int = 1, shuffle: int = 0
) -> scipy.sparse.csr_array:
    """Recursive random matrix of Chakrabarti, Zhan and Faloutsos (2004).

    Parameters
    ----------
    scale : int
        From 2 to 26. There are ``2**scale`` rows.
    edge_factor : int
        Arcs drawn per vertex, at least 1. Loops and repetitions are dropped.
    a, b, c : int
        Percentages of the upper left, upper right and lower left quadrants, on every level; the lower right
        has the rest.
    seed : int
        Seed for the arcs.
    shuffle : int
        0 for the order of the recursion, else the seed of a random order.

    Returns
    -------
    scipy.sparse.csr_array
        Adjacency, at most ``edge_factor * 2**scale`` entries, unsymmetric.
    """
    integer_in("scale", scale, 2, 26)
    integer_in("edge_factor", edge_factor, 1, 2**12)
    size_at_most("arcs", edge_factor << scale, _MOST_DRAWS, "edge_factor")
    integer_in("a", a, 0, 100)
    integer_in("b", b, 0, 100 - a)
    integer_in("c", c, 0, 100 - a - b)
    return directed(2**scale, *_recursive_draws(scale, edge_factor << scale, (a, b, c), seed), shuffle=shuffle)


@construction(family="uniform random graph", kind="undirected random graph")
def erdos_renyi(n: int, degree: int, seed: int = 1) -> scipy.sparse.csr_array:
    """Undirected graph of edges drawn uniformly, after Erdős and Rényi.

    Parameters
    ----------
    n : int
        Vertices, from 2 to 10**8.
    degree : int
        Mean degree drawn, from 1 to n - 1; loops and repetitions are dropped, so that it is smaller in dense graphs.
    seed : int
        Seed for the edges.

    Returns
    -------
    scipy.sparse.csr_array
        Adjacency, about ``n * degree`` entries.
    """
    _check_degree(n, degree)
    edges = n * degree // 2
    return undirected(n, *(_random.integers(seed, 0, n, edges, stream) for stream in range(2)))


@construction(family="uniform random graph", kind="directed graph")
def random_directed(n: int, degree: int, seed: int = 1) -> scipy.sparse.csr_array:
    """Directed graph of arcs drawn uniformly.

    Parameters
    ----------
    n : int
        Vertices, from 2 to 10**8.
    degree : int
        Mean number of arcs drawn from a vertex, from 1 to n - 1; loops and repetitions are dropped.
    seed : int
        Seed for the arcs.

    Returns
    -------
    scipy.sparse.csr_array
        Adjacency, about ``n * degree`` entries, unsymmetric.
    """
    _check_degree(n, degree)
    return directed(n, *(_random.integers(seed, 0, n, n * degree, stream) for stream in range(2)))


@construction(family="uniform random graph", kind="bipartite graph")
def random_bipartite(rows: int, cols: int, degree: int, seed: int = 1) -> scipy.sparse.csr_array:
    """Rectangular matrix of entries drawn uniformly.

    Parameters
    ----------
    rows, cols : int
        From 1 to 10**8.
    degree : int
        Entries drawn per row, from 1 to `cols`; repetitions are dropped.
    seed : int
        Seed for the entries.

    Returns
    -------
    scipy.sparse.csr_array
        About ``rows * degree`` entries.
    """
    integer_in("rows", rows, 1, _MOST_ROWS)
    integer_in("cols", cols, 1, _MOST_ROWS)
    integer_in("degree", degree, 1, cols)
    size_at_most("entries", rows * degree, _MOST_DRAWS, "degree")
    columns = _random.integers(seed, 0, cols, rows * degree)
    return from_coordinates((rows, cols), np.repeat(np.arange(rows), degree), columns, seed=seed)


@construction(family="uniform random graph", kind="undirected random graph")
def random_regular(n: int, degree: int, seed: int = 1) -> scipy.sparse.csr_array:
    """Graph whose vertices all have the same degree, by pairing and by switching what collides.

    Parameters
    ----------
    n : int
        Vertices, from 8 to 10**7.
    degree : int
        From 1 to n // 4; ``n * degree`` has to be even.
    seed : int
        Seed for the pairing.

    Returns
    -------
    scipy.sparse.csr_array
        Adjacency, exactly ``n * degree`` entries.
    """
    integer_in("n", n, 8, 10**7)
    integer_in("degree", degree, 1, n // 4)
    size_at_most("entries", n * degree, _MOST_DRAWS, "degree")
    if n * degree % 2:
        raise ParameterError(f"n * degree has to be even, not {n * degree}", argument="degree")
    one, other = stubs(np.full(n, degree), seed).reshape(2, -1)
    stream = 1
    while len(bad := _collisions(n, one, other)):
        # Every colliding edge exchanges an end with an edge drawn at random; chains of exchanges keep all degrees.
        partner = _random.integers(seed, 0, len(one), len(bad), stream)
        involved = np.unique(np.concatenate([bad, partner]))
        turned = involved[_random.permutation(seed, len(involved), stream + 1)]
        other[involved] = other[turned]
        stream += 2
    return undirected(n, one, other)


@construction(family="power-law graph", kind="undirected graph")
def preferential_attachment(n: int, edges: int = 5, seed: int = 1, shuffle: int = 0) -> scipy.sparse.csr_array:
    """Graph that grows by vertices that join others in proportion to their degree, after Barabási and Albert.

    Each new edge copies an end of an earlier one, drawn uniformly (Batagelj and Brandes 2005); loops and repetitions
    are dropped.

    Parameters
    ----------
    n : int
        Vertices, from 2 to 10**8.
    edges : int
        Number of edges of a new vertex, at least 1; 5 comes near ``DIMACS10/preferentialAttachment``, with n = 10**5.
    seed : int
        Seed for the edges.
    shuffle : int
        0 for the order by age, hubs first; else the seed of a random order.

    Returns
    -------
    scipy.sparse.csr_array
        Adjacency, about ``2 * n * edges`` entries.
    """
    integer_in("n", n, 2, _MOST_ROWS)
    integer_in("edges", edges, 1, 2**12)
    size_at_most("edges", n * edges, _MOST_DRAWS // 2, "edges")
    # The ends of edge e are at 2 * e, the new vertex, and 2 * e + 1, a copy of an earlier place.
    places = np.arange(2 * n * edges)
    drawn = (places * _random.uniform(seed, 0.0, 1.0, len(places))).astype(np.int64)
    ends = copied(np.where(places % 2 == 0, places, drawn)) // (2 * edges)
    return undirected(n, ends[::2], ends[1::2], shuffle=shuffle)


@construction(family="power-law graph", kind="undirected graph")
def power_law(
    n: int, degree: int, exponent: int = 21, most: int = 0, seed: int = 1, shuffle: int = 0
) -> scipy.sparse.csr_array:
    """Graph whose degrees follow a power law, by the configuration model.

    Parameters
    ----------
    n : int
        Vertices, from 2 to 10**8.
    degree : int
        Mean degree drawn, from 1 to n - 1; loops and repetitions are dropped.
    exponent : int
        Exponent of the degree distribution, in tenths, from 15 to 60: fewer large degrees the larger it is.
    most : int
        Largest degree; 0 for n // 4 + 1.
    seed : int
        Seed for degrees and edges.
    shuffle : int
        0 for degrees in descending order, else the seed of a random order.

    Returns
    -------
    scipy.sparse.csr_array
        Adjacency, at most about ``n * degree`` entries.
    """
    _check_degree(n, degree)
    integer_in("exponent", exponent, 15, 60)
    most = integer_in("most", most, 0, n) or n // 4 + 1
    degrees = np.sort(power_law_counts(n, degree, exponent / 10, most, seed))[::-1]
    ends = stubs(degrees, seed, stream=2)
    half = len(ends) // 2
    return undirected(n, ends[:half], ends[half : 2 * half], shuffle=shuffle)


@construction(family="bipartite power-law graph", kind="bipartite graph")
def ratings(
    rows: int, cols: int, degree: int, exponent: int = 22, seed: int = 1, shuffle: int = 0
) -> scipy.sparse.csr_array:
    """Rectangular matrix with power laws of both row and column lengths, such as ratings of items by users.

    Parameters
    ----------
    rows, cols : int
        From 2 to 10**8.
    degree : int
        Mean number of entries drawn per row, from 1 to `cols`; repetitions are dropped.
    exponent : int
        Exponent of both distributions, in tenths, from 15 to 60.
    seed : int
        Seed for the entries.
    shuffle : int
        0 for descending lengths of rows and of columns, 1 for a random order of both.

    Returns
    -------
    scipy.sparse.csr_array
        At most about ``rows * degree`` entries.
    """
    integer_in("rows", rows, 2, _MOST_ROWS)
    integer_in("cols", cols, 2, _MOST_ROWS)
    integer_in("degree", degree, 1, cols)
    integer_in("exponent", exponent, 15, 60)
    integer_in("shuffle", shuffle, 0, 1)
    size_at_most("entries", rows * degree, _MOST_DRAWS, "degree")
    lengths = power_law_counts(rows, degree, exponent / 10, cols // 4 + 1, seed)
    heights = power_law_counts(cols, rows * degree / cols, exponent / 10, rows // 4 + 1, seed, stream=2)
    if not shuffle:
        lengths, heights = np.sort(lengths)[::-1], np.sort(heights)[::-1]
    users, items = stubs(lengths, seed, stream=4), stubs(heights, seed, stream=5)
    count = min(len(users), len(items))
    return from_coordinates((rows, cols), users[:count], items[:count], seed=seed)


@construction(family="small world", kind="undirected random graph")
def small_world(n: int, degree: int = 10, rewired: int = 10, seed: int = 1, shuffle: int = 0) -> scipy.sparse.csr_array:
    """Ring of vertices joined to their nearest, some edges led elsewhere, after Watts and Strogatz.

    Parameters
    ----------
    n : int
        Vertices, from 4 to 10**8.
    degree : int
        Even, from 2 to n - 1; 10 comes near ``DIMACS10/smallworld``, with n = 10**5.
    rewired : int
        Percentage of the edges that end at a random vertex, from 0 to 100.
    seed : int
        Seed for the rewiring.
    shuffle : int
        0 for the order on the ring, else the seed of a random order.

    Returns
    -------
    scipy.sparse.csr_array
        Adjacency, about ``n * degree`` entries.
    """
    integer_in("n", n, 4, _MOST_ROWS)
    integer_in("degree", degree, 2, n - 1)
    integer_in("rewired", rewired, 0, 100)
    size_at_most("entries", n * degree, _MOST_DRAWS, "degree")
    if degree % 2:
        raise ParameterError(f"degree has to be even, not {degree}", argument="degree")
    vertex = np.repeat(np.arange(n), degree // 2)
    near = (vertex + np.tile(np.arange(1, degree // 2 + 1), n)) % n
    elsewhere = _random.integers(seed, 0, n, len(vertex))
    leads_elsewhere = _random.integers(seed, 0, 100, len(vertex), stream=1) < rewired
    return undirected(n, vertex, np.where(leads_elsewhere, elsewhere, near), shuffle=shuffle)


@construction(family="community graph", kind="undirected graph with communities")
def stochastic_block(
    blocks: int, size: int, degree: int, outside: int = 10, seed: int = 1, shuffle: int = 0
) -> scipy.sparse.csr_array:
    """Graph of equal communities: uniform within each, and between them.

    Parameters
    ----------
    blocks : int
        Communities, from 1 to 10**7.
    size : int
        Vertices of each, from 2 to 10**7; 10**8 vertices at most.
    degree : int
        Mean degree drawn, from 1 to ``blocks * size - 1``; loops and repetitions are dropped.
    outside : int
        Percentage of the edges that end in any community, from 0 to 100.
    seed : int
        Seed for the edges.
    shuffle : int
        0 for the order by communities, else the seed of a random order.

    Returns
    -------
    scipy.sparse.csr_array
        Adjacency, about ``blocks * size * degree`` entries.
    """
    integer_in("blocks", blocks, 1, 10**7)
    integer_in("size", size, 2, 10**7)
    n = blocks * size
    size_at_most("vertices", n, _MOST_ROWS, "size")
    _check_degree(n, degree)
    integer_in("outside", outside, 0, 100)
    edges = n * degree // 2
    one = _random.integers(seed, 0, n, edges)
    inside = one // size * size + _random.integers(seed, 0, size, edges, stream=1)
    anywhere = _random.integers(seed, 0, n, edges, stream=2)
    crosses = _random.integers(seed, 0, 100, edges, stream=3) < outside
    return undirected(n, one, np.where(crosses, anywhere, inside), shuffle=shuffle)


@construction(family="community graph", kind="undirected graph with communities")
def hierarchical_graph(
    scale: int, degree: int, closer: int = 50, seed: int = 1, shuffle: int = 0
) -> scipy.sparse.csr_array:
    """Graph of communities within communities: each level doubles them and is the rarer the larger they are.

    Parameters
    ----------
    scale : int
        Levels, from 2 to 26. The graph has ``2**scale`` vertices.
    degree : int
        Mean degree drawn, from 1 to ``2**scale - 1``; repetitions are dropped, many of them where `closer` is large.
    closer : int
        Percentage of the edges of a level or above that stay on that level, from 5 to 95.
    seed : int
        Seed for the edges.
    shuffle : int
        0 for the order by communities, else the seed of a random order.

    Returns
    -------
    scipy.sparse.csr_array
        Adjacency, at most ``2**scale * degree`` entries.
    """
    n = 2 ** integer_in("scale", scale, 2, 26)
    _check_degree(n, degree)
    integer_in("closer", closer, 5, 95)
    edges = n * degree // 2
    one = _random.integers(seed, 0, n, edges)
    level = np.zeros(edges, np.int64)
    climbing = np.ones(edges, bool)
    for stream in range(scale - 1):
        climbing &= _random.integers(seed, 0, 100, edges, stream + 2) >= closer
        level += climbing
    below = _random.integers(seed, 0, n, edges, stream=1) & ((1 << level) - 1)
    other = (one >> level << level ^ 1 << level) | below
    return undirected(n, one, other, shuffle=shuffle)


@construction(family="tree", kind="undirected graph")
def random_tree(n: int, reach: int = 0, seed: int = 1, shuffle: int = 0) -> scipy.sparse.csr_array:
    """Tree in which each vertex joins one drawn from those before it.

    Parameters
    ----------
    n : int
        Vertices, from 2 to 10**8.
    reach : int
        How far back at most, from 1; 0 for any (a random recursive tree).
    seed : int
        Seed for the edges.
    shuffle : int
        0 for the order in which vertices join, else the seed of a random order.

    Returns
    -------
    scipy.sparse.csr_array
        Adjacency, exactly ``2 * n - 2`` entries.
    """
    integer_in("n", n, 2, _MOST_ROWS)
    integer_in("reach", reach, 0, n)
    child = np.arange(1, n)
    earliest = np.maximum(child - reach, 0) if reach else np.zeros(n - 1, np.int64)
    back = (child - earliest) * _random.uniform(seed, 0.0, 1.0, n - 1)
    return undirected(n, child, earliest + back.astype(np.int64), shuffle=shuffle)


@construction(family="citation graph", kind="directed graph")
def citation(
    n: int, degree: int, copying: int = 50, exponent: int = 30, seed: int = 1, shuffle: int = 0
) -> scipy.sparse.csr_array:
    """Papers that cite earlier ones, recent or much cited.

    A reference goes to an earlier paper, more likely a recent one, or else copies a reference of that paper.

    Parameters
    ----------
    n : int
        Papers, from 2 to 10**8.
    degree : int
        Mean number of references drawn, from 1 to n - 1; repetitions are dropped.
    copying : int
        Percentage of references that are copied, from 0 to 100: the larger, the longer the longest columns.
    exponent : int
        Exponent of the distribution of the numbers of references, in tenths, from 15 to 60.
    seed : int
        Seed for the references.
    shuffle : int
        0 for the order by age, a strictly lower triangular matrix; else the seed of a random order.

    Returns
    -------
    scipy.sparse.csr_array
        Adjacency, at most about ``n * degree`` entries, unsymmetric.
    """
    _check_degree(n, degree)
    integer_in("copying", copying, 0, 100)
    integer_in("exponent", exponent, 15, 60)
    counts = power_law_counts(n, degree, exponent / 10, n // 4 + 1, seed)
    counts[0] = 0
    start = np.cumsum(counts) - counts
    paper = np.repeat(np.arange(n), counts)
    # The larger of two uniform draws: an earlier paper is the likelier the younger it is.
    young = np.maximum(*(_random.uniform(seed, 0.0, 1.0, len(paper), stream) for stream in (2, 3)))
    cited = (paper * young).astype(np.int64)
    copies = (_random.integers(seed, 0, 100, len(paper), stream=4) < copying) & (counts[cited] > 0)
    chosen = start[cited] + (counts[cited] * _random.uniform(seed, 0.0, 1.0, len(paper), stream=5)).astype(np.int64)
    source = copied(np.where(copies, chosen, np.arange(len(paper))))
    return directed(n, paper, cited[source], shuffle=shuffle)


@construction(family="web graph", kind="directed graph")
def web_crawl(
    n: int, degree: int, host: int = 100, outside: int = 20, exponent: int = 22, seed: int = 1, shuffle: int = 0
) -> scipy.sparse.csr_array:
    """Pages host by host, most links within the host or nearby, the others to pages that many link to.

    Parameters
    ----------
    n : int
        Pages, from 4 to 10**8.
    degree : int
        Mean number of links drawn from a page, from 1 to n - 1; loops and repetitions are dropped.
    host : int
        Mean number of pages of a host, from 2 to n; numbers follow a power law.
    outside : int
        Percentage of links to any host, from 0 to 100; they go to hosts in proportion to their pages and mostly to the
        first pages of a host.
    exponent : int
        Exponent of the distributions of links and of pages of a host, in tenths, from 15 to 60.
    seed : int
        Seed for the links.
    shuffle : int
        0 for the order by hosts, else the seed of a random order.

    Returns
    -------
    scipy.sparse.csr_array
        Adjacency, at most about ``n * degree`` entries, unsymmetric.
    """
    integer_in("n", n, 4, _MOST_ROWS)
    _check_degree(n, degree)
    integer_in("host", host, 2, n)
    integer_in("outside", outside, 0, 100)
    integer_in("exponent", exponent, 15, 60)
    links = power_law_counts(n, degree, exponent / 10, n // 4 + 1, seed)
    sizes = 1 + power_law_counts(2 * (n // host) + 1, host, exponent / 10, n // 4 + 1, seed, stream=2)
    ends = np.append(np.minimum(np.cumsum(sizes), n), n)
    first = np.append(0, ends[:-1])
    page = np.repeat(np.arange(n), links)
    draw = [_random.uniform(seed, 0.0, 1.0, len(page), stream) for stream in range(4, 7)]
    leaves = _random.integers(seed, 0, 100, len(page), stream=7) < outside
    linked = np.where(leaves, (n * draw[0]).astype(np.int64), page)
    home = np.searchsorted(ends, linked, side="right")
    size = ends[home] - first[home]
    # Cubes and products of uniform draws are mostly small: the first pages of a host, and pages nearby.
    front = first[home] + (size * (draw[1] * draw[1] * draw[1])).astype(np.int64)
    near = first[home] + (linked - first[home] + 1 + (size * (draw[1] * draw[2])).astype(np.int64)) % size
    to_front = leaves | (_random.integers(seed, 0, 100, len(page), stream=8) < _TO_THE_FRONT_OF_THE_HOST)
    return directed(n, page, np.where(to_front, front, near), shuffle=shuffle)


@construction(family="hypersparse graph", kind="directed graph")
def hypersparse_graph(n: int, entries: int, seed: int = 1) -> scipy.sparse.csr_array:
    """Matrix with fewer entries than rows, so that most rows are empty.

    Parameters
    ----------
    n : int
        Rows and columns, from 2 to 10**8.
    entries : int
        Drawn uniformly, from 1 to n; those on the diagonal and repetitions are dropped.
    seed : int
        Seed for the entries.

    Returns
    -------
    scipy.sparse.csr_array
        At most `entries` entries, unsymmetric.
    """
    integer_in("n", n, 2, _MOST_ROWS)
    integer_in("entries", entries, 1, n)
    return directed(n, *(_random.integers(seed, 0, n, entries, stream) for stream in range(2)))


@construction(family="dense rows", kind="directed graph")
def hub_graph(n: int, degree: int, dense: int, fill: int = 50, seed: int = 1) -> scipy.sparse.csr_array:
    """Uniform sparse rows, and among them a few that are nearly dense.

    Parameters
    ----------
    n : int
        Rows and columns, from 2 to 10**8.
    degree : int
        Mean number of entries drawn for a row, from 1 to n - 1; those on the diagonal and repetitions are dropped.
    dense : int
        Dense rows, at random places, from 1 to n.
    fill : int
        Percentage of the places of a dense row that have an entry, from 1 to 100.
    seed : int
        Seed for the entries.

    Returns
    -------
    scipy.sparse.csr_array
        About ``n * degree + dense * n * fill / 100`` entries, unsymmetric.
    """
    _check_degree(n, degree)
    integer_in("dense", dense, 1, n)
    integer_in("fill", fill, 1, 100)
    size_at_most("entries", n * degree + dense * n, _MOST_DRAWS, "dense")
    tail, head = (_random.integers(seed, 0, n, n * degree, stream) for stream in range(2))
    filled = np.flatnonzero(_random.integers(seed, 0, 100, dense * n, stream=2) < fill)
    row = _random.permutation(seed, n, stream=3)[:dense][filled // n]
    return directed(n, np.concatenate([tail, row]), np.concatenate([head, filled % n]))


_TO_THE_FRONT_OF_THE_HOST = 20
"""Percentage of the links within a host that go to its first pages."""


def _check_degree(n: int, degree: int) -> None:
    integer_in("n", n, 2, _MOST_ROWS)
    integer_in("degree", degree, 1, n - 1)
    size_at_most("entries", n * degree, _MOST_DRAWS, "degree")


def _recursive_draws(
    scale: int, count: int, percentages: tuple[int, int, int], seed: int
) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.int64]]:
    """Draw entries of a recursive matrix: on each level one of four quadrants, by 16 random bits."""
    shares = np.cumsum(percentages) * 2**16 // 100
    rows, columns = np.zeros(count, np.int64), np.zeros(count, np.int64)
    for level in range(scale):
        if level % 4 == 0:
            drawn = _random.bits(seed, count, stream=level // 4)
        piece = (drawn >> np.uint64(16 * (level % 4))) & np.uint64(2**16 - 1)
        lower = piece >= np.uint64(shares[1])
        right = ((piece >= np.uint64(shares[0])) & ~lower) | (piece >= np.uint64(shares[2]))
        rows, columns = 2 * rows + lower, 2 * columns + right
    return rows, columns


def _collisions(n: int, one: npt.NDArray[np.int64], other: npt.NDArray[np.int64]) -> npt.NDArray[np.int64]:
    """List the edges that are loops or repeat another."""
    keys = np.minimum(one, other) * n + np.maximum(one, other)
    ascending = np.sort(keys)
    repeated = np.unique(ascending[1:][ascending[1:] == ascending[:-1]])
    return np.flatnonzero(np.isin(keys, repeated) | (one == other))
