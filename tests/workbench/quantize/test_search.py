"""The search for nodes to keep finds few, with few tries."""

from __future__ import annotations

from onnxlift.workbench.quantize.search import find_kept, groups_of
from onnxlift.workbench.report import open_model

from .networks import convnet


def search(noise: dict[str, float], most: float) -> tuple[frozenset[str] | None, int]:
    """Search where the noise of all that is quantised adds up, and only some of it reaches the output."""
    ranking = sorted(noise, key=lambda name: -abs(noise[name]))
    tries = 0

    def reaches(kept: frozenset[str]) -> bool:
        nonlocal tries
        tries += 1
        return sum(power for name, power in noise.items() if name not in kept and power > 0) <= most

    return find_kept(ranking, reaches), tries


def test_the_noisiest_are_kept() -> None:
    noise = {f"n{number}": 2.0**-number for number in range(200)}
    kept, tries = search(noise, 2.0**-9)
    assert kept == {f"n{number}" for number in range(10)} and tries < 25


def test_a_group_whose_noise_is_lost_on_the_way_is_given_back() -> None:
    kept, _ = search({"loud": 8.0, "lost": -4.0, "soft": 2.0, "rest": 0.1}, 0.2)
    assert kept == {"loud", "soft"}


def test_if_all_would_have_to_be_kept_nothing_is_found() -> None:
    assert search({"a": 2.0, "b": 1.5, "c": 1.0}, 0.5)[0] is None
    assert search({"a": 2.0}, 0.5)[0] is None


def test_a_product_and_what_follows_it_are_one_group() -> None:
    graph = open_model(convnet()).graph
    names = {node.op_type: node.name or "" for node in graph}
    conv, other = (node.name for node in graph if node.op_type == "Conv")
    groups = groups_of(graph, [node.name or "" for node in graph])
    assert list(groups) == [conv, other, names["Gemm"]]
    assert groups[other][-1] == names["Flatten"] and len(groups[conv]) == 2
