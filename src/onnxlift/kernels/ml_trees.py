"""Walking through ensembles of decision trees, all samples and all trees at once, level by level."""

from torch import Tensor


def tree_leaves(
    x: Tensor, roots: Tensor, features: Tensor, thresholds: Tensor, children: Tensor, depth: int
) -> Tensor:
    """The leaf that each row of `x` reaches in each tree. `children` holds where to go from a node if its feature is
    above the threshold (or not a number), and where if not; leaves lead to themselves."""
    node = roots.expand(x.shape[0], -1)
    for _ in range(depth):
        node = children[node, (x.gather(1, features[node]) <= thresholds[node]).long()]
    return node


def mixed_tree_leaves(
    x: Tensor, roots: Tensor, features: Tensor, thresholds: Tensor, children: Tensor, depth: int
) -> Tensor:
    """The leaf that each row of `x` reaches in each tree. `children` holds where to go from a node if its feature is
    below, at or above the threshold, or not a number; leaves lead to themselves."""
    node = roots.expand(x.shape[0], -1)
    for _ in range(depth):
        value, threshold = x.gather(1, features[node]), thresholds[node]
        side = (value == threshold).long() + 2 * (value > threshold) + 3 * value.isnan()
        node = children[node, side]
    return node
