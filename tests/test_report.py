"""The report of a lifted model, as people read it."""

from __future__ import annotations

from dataclasses import replace

from onnxlift.report import LiftReport


def report(steps: dict[str, dict[str, int]], restless: tuple[str, ...] = ()) -> LiftReport:
    return LiftReport(
        name="net",
        nodes=12,
        parameters=3,
        weight_bytes=12,
        steps=steps,
        restless=restless,
        classes=1,
        lines=20,
        kernels=(),
        warnings=(),
    )


def test_a_stage_is_one_line_with_its_steps() -> None:
    text = str(report({"normal form": {"constant-nodes": 1200}, "idioms": {"linear": 2, "gelu": 1}}))
    assert text.splitlines()[4:] == [
        "  normal form    constant-nodes 1,200",
        "  idioms         linear 2, gelu 1",
    ]


def test_long_lines_are_wrapped_below_the_first_step() -> None:
    steps = {f"some-idiom-{number}": 1000 + number for number in range(20)}
    lines = str(report({"idioms": steps})).splitlines()[4:]
    assert len(lines) > 2 and max(map(len, lines)) <= 100
    assert all(line.startswith(" " * 17 + "some-idiom-") for line in lines[1:])
    assert all(f"some-idiom-{number} 1,0{number:02}" in "\n".join(lines) for number in range(20))


def test_a_stage_that_has_not_come_to_rest_is_named() -> None:
    assert "not at rest    simplifying" in str(report({}, restless=("simplifying",)))
    assert "not at rest" not in str(report({}))


def test_the_structure_that_was_chosen_is_named_with_the_others() -> None:
    told = replace(report({}), structures={"repetition": 83, "names": 2739, "none": 115})
    text = "structure      repetition (83 lines of code), chosen over names (2,739) and none (115)"
    assert text in str(told)
    assert "structure" not in str(report({}))
