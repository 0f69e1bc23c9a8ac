"""Classical machine learning: n-gram counts, decision trees, thresholds."""

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise

import numpy as np
from tinygrad import Tensor, dtypes

from compile.ops.elementwise import not_above
from compile.ops.indexing import take, take_flat
from compile.ops.registry import Array, Context, Op, UnsupportedUseError

_DOMAIN = "ai.onnx.ml"


def binarizer(x: Tensor, threshold: float = 0.0) -> Tensor:
    """One above the threshold, else zero."""
    return (x > threshold).cast(x.dtype)


def tf_idf_vectorizer(
    x: Tensor,
    max_gram_length: int,
    max_skip_count: int,
    min_gram_length: int,
    mode: str,
    ngram_counts: Sequence[int],
    ngram_indexes: Sequence[int],
    pool_int64s: Sequence[int] = (),
    pool_strings: Sequence[str] = (),
    weights: Sequence[float] = (),
    *,
    context: Context,
) -> Tensor:
    """How often each n-gram of the pool occurs in each row, with up to so many items skipped."""
    if pool_strings:
        raise UnsupportedUseError("a pool of strings is not supported; map words to numbers first")
    rows = x.reshape(1, -1) if x.ndim == 1 else x
    pool = np.asarray(pool_int64s, np.int64)
    starts = [*ngram_counts, len(pool)]
    counts, first = [], 0
    for length, (start, end) in enumerate(pairwise(starts), start=1):
        grams = pool[start:end].reshape(-1, length)
        if min_gram_length <= length <= max_gram_length and len(grams):
            target = np.asarray(ngram_indexes[first : first + len(grams)])
            counts.append((_occurrences(context, rows, grams, max_skip_count), target, first))
        first += len(grams)
    width = max(ngram_indexes) + 1
    y = Tensor.zeros(rows.shape[0], width, dtype=dtypes.float32, buffer=False)
    for count, target, first in counts:
        if mode == "IDF":
            count = count.minimum(1.0)
        spread = np.zeros((len(target), width), np.float32)
        factor = np.asarray(weights[first : first + len(target)] or 1.0, np.float32)
        spread[np.arange(len(target)), target] = 1.0 if mode == "TF" else factor
        y = y + count @ context.tensor(spread)
    return y.reshape(-1) if x.ndim == 1 else y


def _occurrences(context: Context, rows: Tensor, grams: Array, max_skip: int) -> Tensor:
    """Counts (rows, grams) over all distances between items; single items have no distance."""
    length, size = grams.shape[1], rows.shape[1]
    total = Tensor.zeros(rows.shape[0], len(grams), dtype=dtypes.float32, buffer=False)
    for distance in range(1, (max_skip + 1 if length > 1 else 1) + 1):
        places = size - (length - 1) * distance
        if places <= 0:
            break
        match = Tensor.full((1, 1, 1), True, buffer=False)
        for k in range(length):
            items = rows[:, k * distance : k * distance + places].cast(dtypes.int64).unsqueeze(2)
            here = items == context.tensor(grams[:, k].reshape(1, 1, -1))
            match = match & here
        total = total + match.cast(dtypes.float32).sum(1)
    return total


_LEQ, _LT, _GTE, _GT, _EQ, _NEQ, _MEMBER = range(7)
_AVERAGE, _SUM, _MIN, _MAX = range(4)


@dataclass(frozen=True)
class _Trees:
    """Branches as tables; leaf n is entry len(features) + n, its own successor."""

    features: Array
    splits: Array
    modes: Array
    on_true: Array
    on_false: Array
    nan_true: Array
    members: Array

    def depth(self, roots: Sequence[int]) -> int:
        """Steps after which every path has reached a leaf."""
        frontier, steps = set(roots), 0
        branches = len(self.features)
        while frontier := {n for n in frontier if n < branches}:
            frontier = {int(t[n]) for n in frontier for t in (self.on_true, self.on_false)}
            steps += 1
            if steps > branches:
                raise ValueError("the tree has a cycle")
        return steps


def _member_table(modes: Array, values: Array | None) -> Array:
    """For each branch its set of members, filled up with NaN, which equals nothing."""
    sets: list[list[float]] = [[]]
    for value in [] if values is None else values.reshape(-1).tolist():
        if np.isnan(value):
            sets.append([])
        else:
            sets[-1].append(value)
    table = np.full((len(modes), max(1, *(len(s) for s in sets)) if sets else 1), np.nan)
    members = iter(sets)
    for n in np.flatnonzero(modes == _MEMBER):
        mine = next(members)
        table[n, : len(mine)] = mine
    return table


def tree_ensemble(
    x: Tensor,
    leaf_targetids: Sequence[int],
    leaf_weights: Array,
    nodes_falseleafs: Sequence[int],
    nodes_falsenodeids: Sequence[int],
    nodes_featureids: Sequence[int],
    nodes_modes: Array,
    nodes_splits: Array,
    nodes_trueleafs: Sequence[int],
    nodes_truenodeids: Sequence[int],
    tree_roots: Sequence[int],
    aggregate_function: int = 1,
    membership_values: Array | None = None,
    n_targets: int = 1,
    nodes_hitrates: Array | None = None,
    nodes_missing_value_tracks_true: Sequence[int] = (),
    post_transform: int = 0,
    *,
    context: Context,
) -> Tensor:
    """Sum (or mean, minimum, maximum) per target of the leaves that the rows of x reach."""
    count = len(nodes_featureids)
    trees = _Trees(
        np.asarray(nodes_featureids, np.int32),
        np.asarray(nodes_splits),
        np.asarray(nodes_modes).astype(np.int32),
        np.asarray(nodes_truenodeids, np.int32) + count * np.asarray(nodes_trueleafs, np.int32),
        np.asarray(nodes_falsenodeids, np.int32) + count * np.asarray(nodes_falseleafs, np.int32),
        np.asarray(nodes_missing_value_tracks_true or (0,) * count, np.int32),
        _member_table(np.asarray(nodes_modes), membership_values),
    )
    at = context.tensor(np.asarray(tree_roots, np.int32).reshape(1, -1))
    at = at.expand(x.shape[0], len(tree_roots))
    for _ in range(trees.depth(tree_roots)):
        at = _descend(context, x, trees, at)
    leaf = at - count
    weight = take_flat(context.tensor(np.asarray(leaf_weights)), leaf)
    target = take_flat(context.tensor(np.asarray(leaf_targetids, np.int32)), leaf)
    y = _aggregated(weight, target, n_targets, aggregate_function).cast(x.dtype)
    return _transformed(y, post_transform)


def _descend(context: Context, x: Tensor, trees: _Trees, at: Tensor) -> Tensor:
    """One step down for each row and tree; leaves stay."""
    count = len(trees.features)
    node = at.minimum(count - 1)
    feature = take_flat(context.tensor(trees.features), node)
    value = x.gather(1, feature)
    split = take_flat(context.tensor(trees.splits), node).cast(x.dtype)
    mode = take_flat(context.tensor(trees.modes), node)
    members = take(context.tensor(trees.members.astype(trees.splits.dtype)), 0, node)
    conditions = {
        _LEQ: not_above(value, split),
        _LT: value < split,
        _GTE: not_above(split, value),
        _GT: value > split,
        _EQ: value == split,
        _NEQ: value != split,
        _MEMBER: (members.cast(x.dtype) == value.unsqueeze(-1)).any(-1),
    }
    whether = conditions[_LEQ]
    for number in sorted(set(trees.modes.tolist()) - {_LEQ}):
        whether = (mode == number).where(conditions[number], whether)
    if trees.nan_true.any():
        whether = whether | (value.isnan() & (take_flat(context.tensor(trees.nan_true), node) != 0))
    yes, no = (take_flat(context.tensor(t), node) for t in (trees.on_true, trees.on_false))
    return (at < count).where(whether.where(yes, no), at)


def _aggregated(weight: Tensor, target: Tensor, targets: int, function: int) -> Tensor:
    mine = target.unsqueeze(-1) == Tensor.arange(targets, dtype=dtypes.int32)
    values = weight.unsqueeze(-1)
    if function in (_SUM, _AVERAGE):
        total = mine.where(values, 0).sum(1)
        return total / weight.shape[1] if function == _AVERAGE else total
    if function == _MIN:
        return mine.where(values, float("inf")).min(1)
    return mine.where(values, -float("inf")).max(1)


def _transformed(y: Tensor, post_transform: int) -> Tensor:
    if post_transform == 0:
        return y
    if post_transform == 1:
        return y.softmax(-1)
    if post_transform == 2:
        return y.sigmoid()
    raise UnsupportedUseError(
        f"post_transform {post_transform} is not supported; 0 (none), 1 (softmax), 2 (logistic) are"
    )


OPS = (
    Op("Binarizer", binarizer, domain=_DOMAIN),
    Op("TreeEnsemble", tree_ensemble, domain=_DOMAIN, context=True, foldable=False),
    Op("TfIdfVectorizer", tf_idf_vectorizer, context=True, foldable=False),
)
