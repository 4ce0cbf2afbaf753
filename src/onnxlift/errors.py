"""The errors that users see. Each message is one paragraph that names the place and says what to do."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass


class OnnxLiftError(Exception):
    """A failure that the model or the call causes, not a fault of onnxlift. The command line prints it and exits 2."""


class LoadError(OnnxLiftError):
    """The bytes are not a model that can be lifted: broken, hostile, or of a kind that ONNX does not define."""


class SourceTypeError(LoadError, TypeError):
    """What was given as a model is of a type that holds none."""


@dataclass(frozen=True)
class Finding:
    """One thing in a model that breaks a rule of ONNX.

    `rule` is the rule's stable name, `place` says which node or value breaks it, and `text` what is wrong."""

    rule: str
    place: str
    text: str

    def __str__(self) -> str:
        return f"{self.place}: {self.text}"


class InvalidModelError(LoadError):
    """The model breaks rules of ONNX. `findings` lists everything that was found, not only the first."""

    MOST_SHOWN = 5  # findings of one rule

    def __init__(self, findings: Sequence[Finding]) -> None:
        self.findings = tuple(findings)
        super().__init__(self._message())

    def _message(self) -> str:
        if len(self.findings) == 1:
            (finding,) = self.findings
            told = _shown(str(finding), 600).rstrip(".")
            return f"the model is not valid: {told} (rule {finding.rule}). Mend this place, or export the model again."
        by_rule: dict[str, list[Finding]] = {}
        for finding in self.findings:
            by_rule.setdefault(finding.rule, []).append(finding)
        rules = "a rule" if len(by_rule) == 1 else f"{len(by_rule)} rules"
        lines = [f"the model is not valid: it breaks {rules} of ONNX in {len(self.findings)} places", ""]
        width = max(map(len, by_rule))
        for rule, found in by_rule.items():
            lines += [f"  {rule:{width}}  {_shown(str(finding), 600)}" for finding in found[: self.MOST_SHOWN]]
            if len(found) > self.MOST_SHOWN:
                lines.append(f"  {'':{width}}  ... and {len(found) - self.MOST_SHOWN} more")
        lines += ["", "Mend these places, or export the model again. docs/rules.md explains each rule."]
        return "\n".join(lines)


class InternalError(OnnxLiftError):
    """A fault of onnxlift itself, and not of the model or the call. `__cause__` is the error that was met.

    `stage` and `step` say what was being done, `node` at which node of the model, if that is known."""

    def __init__(self, stage: str, step: str, node: str, error: BaseException, *, skippable: bool = False) -> None:
        self.stage, self.step, self.node = stage, step, node
        where = f" in the step {step!r} of the stage {stage!r}" if step else ""
        at = f", at {node}" if node else ""
        what = _shown(f"{type(error).__name__}: {error}".strip().rstrip(":"))
        super().__init__(
            f"this is a fault of onnxlift, not of your model or your call: {what}{where}{at}. Nothing was written. "
            f"Please report it with this text, and the model if you may share it; `--debug` shows the traceback."
            + (f" Until it is mended, `--skip-pass {step}` may help." if skippable else "")
        )


class OperatorError(OnnxLiftError):
    """An operator function that the user registered has failed. `__cause__` is its error."""


class OutputError(OnnxLiftError):
    """The result cannot be written where it was asked for."""


class VerifyError(OnnxLiftError):
    """The comparison itself could not be carried out (which is not the same as a mismatch)."""


LONGEST_TEXT = 200  # characters of a text from the model that a message shows


def quote(name: str | bytes) -> str:
    """Quote a name from the model for a message: control characters are escaped, and a long name is cut off."""
    return repr(name) if len(name) <= LONGEST_TEXT else f"{name[:150]!r}... ({len(name):,} characters)"


@dataclass(frozen=True)
class UnsupportedNode:
    """One node that cannot be lifted, with all that a user needs to find it."""

    name: str
    op_type: str
    domain: str
    opset: int | None
    reason: str = ""


class UnsupportedError(OnnxLiftError):
    """Some nodes cannot be lifted. `nodes` lists every one of them, not only the first."""

    def __init__(self, model_name: str, nodes: Sequence[UnsupportedNode], total: int) -> None:
        self.model_name = model_name
        self.nodes = tuple(nodes)
        self.total = total
        super().__init__(self._message())

    def _message(self) -> str:
        groups: dict[tuple[str, str, int | None, str], list[UnsupportedNode]] = {}
        for node in self.nodes:
            key = (_shown(node.domain), _shown(node.op_type), node.opset, _shown(node.reason))
            groups.setdefault(key, []).append(node)
        operators = len({(node.domain, node.op_type) for node in self.nodes})
        verb = "operator is" if operators == 1 else "operators are"
        share = f"{len(self.nodes)} of {self.total} nodes"
        lines = [f"cannot lift {self.model_name}: {operators} {verb} not supported ({share})", ""]
        titles = [f"{domain or 'ai.onnx'}::{op_type}" for domain, op_type, _, _ in groups]
        width = max(map(len, titles))
        for title, ((_, _, opset, reason), members) in zip(titles, groups.items(), strict=True):
            count = f"{len(members)} node{'s' if len(members) > 1 else ''}"
            version = opset if opset is not None else "?"
            line = f"  {title:{width}}  opset {version:<3} {count}, first: {_shown(members[0].name)}"
            lines.append(f"{line}: {reason}" if reason else line)
        domain, op_type, _, _ = next(iter(groups))
        where = f', domain="{domain}"' if domain else ""
        lines += ["", f'Register your own with @onnxlift.op("{op_type}"{where}); see docs/extending.md.']
        return "\n".join(lines)


def _shown(text: str, longest: int = LONGEST_TEXT) -> str:
    """Return a text from the model for a line of a message: control characters escaped, and a long text cut off."""
    text = text if text.isprintable() else ascii(text)[1:-1]
    return text if len(text) <= longest else f"{text[:longest]}..."
