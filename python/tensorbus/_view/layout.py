"""Places the boxes of a graph in columns, so that most edges go from left to right.

After Sugiyama, Tagawa, Toda, "Methods for Visual Understanding of Hierarchical System Structures"
(1981): edges that close a cycle are reversed, each box is placed right of its predecessors, and the
order within a column follows the neighbours. An edge that crosses columns has a bend in each of
them.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise

Edge = tuple[str, str]
Point = tuple[float, float]

_SWEEPS = 6
_GAP = 14.0  # between two boxes of a column
_COLUMN_GAP = 84.0  # between two columns: room for the rates
_BEND = 12.0  # the height of a bend


@dataclass(frozen=True)
class Box:
    """The position and size of a box, in pixels from the upper left corner."""

    x: float
    y: float
    width: float
    height: float


@dataclass(frozen=True)
class Layout:
    """The boxes, and the points of each edge."""

    width: float
    height: float
    boxes: dict[str, Box]
    edges: dict[Edge, list[Point]]


def layout(sizes: Mapping[str, tuple[float, float]], edges: Sequence[Edge]) -> Layout:
    """Places boxes of these widths and heights.

    >>> found = layout({"a": (50, 20), "b": (50, 20), "c": (50, 20)}, [("a", "b"), ("b", "c")])
    >>> [found.boxes[name].x for name in "abc"], found.edges["a", "b"]
    ([0.0, 134.0, 268.0], [(50.0, 10.0), (134.0, 10.0)])
    """
    edges = sorted({edge for edge in edges if edge[0] != edge[1]})
    forward = _without_cycles(sizes, edges)
    column = _columns(sizes, list(forward.values()))
    chains = {edge: _chain(edge, way, column) for edge, way in forward.items()}
    order = _ordered(column, chains)
    heights = {name: sizes[name][1] if name in sizes else _BEND for name in column}
    boxes = _placed(order, heights, sizes)
    width = max((box.x + box.width for box in boxes.values()), default=0.0)
    height = max((box.y + box.height for box in boxes.values()), default=0.0)
    ways = {edge: _points(edge, chain, boxes) for edge, chain in chains.items()}
    return Layout(width, height, {name: boxes[name] for name in sizes}, ways)


def _without_cycles(names: Mapping[str, object], edges: Sequence[Edge]) -> dict[Edge, Edge]:
    """The direction of each edge, reversed if it closes a cycle in a depth-first walk."""
    following: dict[str, list[str]] = defaultdict(list)
    for source, target in edges:
        following[source].append(target)
    targets = {target for _, target in edges}
    roots = [name for name in names if name not in targets]
    done: set[str] = set()
    open_: dict[str, None] = {}
    back: set[Edge] = set()
    for root in [*roots, *names]:
        stack = [(root, iter(following[root]))] if root not in done else []
        open_[root] = None
        while stack:
            name, rest = stack[-1]
            for other in rest:
                if other in open_:
                    back.add((name, other))
                elif other not in done:
                    open_[other] = None
                    stack.append((other, iter(following[other])))
                    break
            else:
                done.add(name)
                open_.pop(name, None)
                stack.pop()
        open_.pop(root, None)
    return {edge: (edge[1], edge[0]) if edge in back else edge for edge in edges}


def _columns(names: Mapping[str, object], edges: Sequence[Edge]) -> dict[str, int]:
    """The column of each box: the length of the longest path to it.

    Boxes without predecessors move right, next to their first successor.
    """
    following: dict[str, list[str]] = defaultdict(list)
    missing = dict.fromkeys(names, 0)
    for source, target in edges:
        following[source].append(target)
        missing[target] += 1
    column = dict.fromkeys(names, 0)
    sources = [name for name in names if not missing[name]]
    ready = list(sources)
    while ready:
        name = ready.pop()
        for target in following[name]:
            column[target] = max(column[target], column[name] + 1)
            missing[target] -= 1
            if not missing[target]:
                ready.append(target)
    for name in sources:
        if following[name]:
            column[name] = min(column[target] for target in following[name]) - 1
    return column


def _chain(edge: Edge, way: Edge, column: dict[str, int]) -> list[str]:
    """The names along an edge, with a new name for the bend in each column that it crosses."""
    source, target = way
    bends = [f"\0{source}\0{target}\0{at}" for at in range(column[source] + 1, column[target])]
    for at, bend in enumerate(bends, column[source] + 1):
        column[bend] = at
    return [source, *bends, target] if way == edge else [target, *reversed(bends), source]


def _ordered(column: Mapping[str, int], chains: Mapping[Edge, list[str]]) -> list[list[str]]:
    """The names of each column, from top to bottom."""
    near: dict[str, list[str]] = defaultdict(list)
    for chain in chains.values():
        for one, other in pairwise(chain):
            near[one].append(other)
            near[other].append(one)
    order: list[list[str]] = [[] for _ in range(max(column.values(), default=-1) + 1)]
    for name in sorted(column):
        order[column[name]].append(name)
    place = {name: _share(at, names) for names in order for at, name in enumerate(names)}
    for sweep in range(_SWEEPS):
        back = sweep % 2 == 1
        for names in reversed(order) if back else order:
            centre = {}
            for name in names:
                seen = [
                    place[other] for other in near[name] if (column[other] > column[name]) == back
                ]
                centre[name] = sum(seen) / len(seen) if seen else place[name]
            names.sort(key=lambda name: centre[name])
            place.update({name: _share(at, names) for at, name in enumerate(names)})
    return order


def _share(at: int, names: Sequence[str]) -> float:
    return (at + 0.5) / len(names)


def _placed(
    order: Sequence[Sequence[str]],
    heights: Mapping[str, float],
    sizes: Mapping[str, tuple[float, float]],
) -> dict[str, Box]:
    """Positions of boxes and bends. Columns are centred; boxes have the width of their column."""
    columns = [sum(heights[name] + _GAP for name in names) - _GAP for names in order]
    tallest = max(columns, default=0.0)
    boxes = {}
    x = 0.0
    for names, height in zip(order, columns, strict=True):
        y = (tallest - height) / 2
        width = max((sizes[name][0] for name in names if name in sizes), default=0.0)
        for name in names:
            boxes[name] = Box(x, y, width, heights[name])
            y += heights[name] + _GAP
        x += width + _COLUMN_GAP
    return boxes


def _points(edge: Edge, chain: Sequence[str], boxes: Mapping[str, Box]) -> list[Point]:
    """The points of an edge, from the side of the first box that faces the last box."""
    first, last = boxes[edge[0]], boxes[edge[1]]
    right = first.x < last.x
    points = [(first.x + (first.width if right else 0), first.y + first.height / 2)]
    for name in chain[1:-1]:
        bend = boxes[name]
        ends = [(bend.x, bend.y + _BEND / 2), (bend.x + bend.width, bend.y + _BEND / 2)]
        points += ends if right else reversed(ends)
    return [*points, (last.x + (0 if right else last.width), last.y + last.height / 2)]
