"""Walking through ensembles of decision trees, all samples and all trees at once, level by level."""

from torch import Tensor


def tree_leaves(x: Tensor, roots: Tensor, features: Tensor, thresholds: Tensor, branches: Tensor, depth: int) -> Tensor:
    """The leaf that each row of `x` reaches in each tree. `branches` holds where to go from a node if its feature is
    above the threshold (or not a number), and where if not; leaves lead to themselves."""
    node = roots.repeat(x.shape[0])
    for _ in range(depth):
        value = x.gather(1, features.index_select(0, node).view(-1, len(roots))).flatten()
        node = branches.flatten().index_select(0, 2 * node + (value <= thresholds.index_select(0, node)))
    return node.view(-1, len(roots))


def mixed_tree_leaves(
    x: Tensor, roots: Tensor, features: Tensor, thresholds: Tensor, branches: Tensor, depth: int
) -> Tensor:
    """The leaf that each row of `x` reaches in each tree. `branches` holds where to go from a node if its feature is
    below, at or above the threshold, or not a number; leaves lead to themselves."""
    node = roots.repeat(x.shape[0])
    for _ in range(depth):
        value = x.gather(1, features.index_select(0, node).view(-1, len(roots))).flatten()
        threshold = thresholds.index_select(0, node)
        side = (value == threshold) + 2 * (value > threshold) + 3 * value.isnan()
        node = branches.flatten().index_select(0, 4 * node + side)
    return node.view(-1, len(roots))
