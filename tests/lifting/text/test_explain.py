"""Why things are called what they are, and what became of ONNX nodes."""

from __future__ import annotations

import pytest

import onnxlift
from models.handmade import beam_step, tiny_resnet, transformer_block
from onnxlift.lifting.text.named import named_things
from rewriting.idioms.recognising import parse
from small_graphs import Graph


def attentions(**options: bool) -> onnxlift.Lifted:
    """Two attentions in a list, with a mask and residuals."""
    g = Graph()
    x, mask = g.input("hidden", "n", 5, 8), g.input("padding", "n", 5, 5)
    for i in range(2):
        scope = f"/layers.{i}"
        q, k, v = (
            g.node("MatMul", x, g.weight(f"layers.{i}.{name}.weight", 8, 8), name=f"{scope}/{name}/MatMul")
            for name in ("first", "second", "third")
        )
        t = g.node("Transpose", k, perm=[0, 2, 1], name=f"{scope}/Transpose")
        s = g.node("Add", g.node("MatMul", q, t, name=f"{scope}/MatMul"), mask, name=f"{scope}/Add")
        p = g.node("Softmax", s, axis=-1, name=f"{scope}/Softmax")
        h = g.node("MatMul", p, v, name=f"{scope}/MatMul_1")
        x = g.node("Add", g.node("Sin", h, name=f"{scope}/Sin"), x, name=f"{scope}/Add_1")
    y = g.node("Exp", x, name="/Exp")
    return onnxlift.lift(g.model(y), name="small", **options)


def small(**options: bool) -> onnxlift.Lifted:
    """Layers of two widths, in a list."""
    g = Graph()
    x = g.input("hidden", "n", 4)
    for i, width in enumerate((8, 12)):
        h = g.node("Sin", g.linear(x, f"layers.{i}.up", 4, width), name=f"/layers.{i}/Sin")
        x = g.node("Mul", g.linear(h, f"layers.{i}.down", width, 4), x, name=f"/layers.{i}/Mul")
    return onnxlift.lift(g.model(g.node("Tanh", x, name="/Tanh")), name="small", **options)


def reasons(model: onnxlift.Lifted, name: str) -> dict[tuple[str, str], str]:
    return {(thing.kind, thing.where): thing.name.why for thing in model.explain(name).things}


def test_classes_members_arguments_and_variables_have_their_reasons() -> None:
    model = small()
    assert reasons(model, "Layer") == {("class", ""): "it stands at `layers.0`"}
    assert reasons(model, "Small") == {("class", ""): "the file is called `small`"}
    assert reasons(model, "up")["member", "Layer"] == "state-dict key of the weight `layers.0.up.weight`"
    assert reasons(model, "hidden")["argument", "Layer.__init__"].startswith("a width that the block has only inside")
    assert reasons(model, "hidden")["variable", "Small.forward"] == "the model's input is called `hidden`"
    assert reasons(model, "x")["variable", "Layer.forward"] == "what the module is about: a letter"


def test_a_value_of_the_graph_leads_to_the_variable_that_holds_it() -> None:
    model = onnxlift.lift(transformer_block(), name="block")
    (thing,) = model.explain("Q_t").things
    assert (thing.kind, thing.name.text, thing.name.why) == ("variable", "Q", "the result of `self.Q`")


def test_the_text_shows_place_reason_values_nodes_and_others() -> None:
    model = attentions()
    text = str(model.explain("attn"))
    line = next(i for i, line in enumerate(model.source.splitlines(), 1) if "attn = F.scaled" in line)
    why = "what `scaled_dot_product_attention` gives"
    assert text.startswith(f"attn: variable in Attention.forward, line {line}\n  why       {why}\n")
    assert "  nodes     /layers.0/MatMul_1, /layers.1/MatMul_1\n" in text
    assert "  others    q: it is what becomes of `q`, which is not needed any more\n" in text


def test_a_class_that_the_exporter_knows() -> None:
    g = Graph()
    x = g.input("x", "n", 4)
    for i in range(2):
        scopes = ["", f"layers.{i}", f"layers.{i}.fc", "linear"]
        weight = g.weight(f"layers.{i}.fc.weight", 4, 4)
        classes = ["M", "BertLayer", "torch.nn.modules.linear.Linear", "aten.linear"]
        h = g.node("Gemm", x, weight, transB=1, scopes=scopes, classes=classes)
        x = g.node("Sin", h, scopes=["", f"layers.{i}", "sin"], classes=["M", "BertLayer", "aten.sin"])
    model = onnxlift.lift(g.model(x), name="m")
    assert reasons(model, "BertLayer") == {("class", ""): "the exporter's class hierarchy says `BertLayer`"}


@pytest.mark.parametrize("proto", [beam_step(), tiny_resnet(), transformer_block()])
def test_explaining_gives_every_variable_the_name_that_it_has(proto: object) -> None:
    model = onnxlift.lift(proto)
    writers = model._source.writers
    before = [(t.kind, t.where, t.name.text, t.name.why) for t in named_things(writers)]
    after = [(t.kind, t.where, t.name.text, t.name.why) for t in named_things(writers, with_others=True)]
    assert before == after and any(kind == "variable" for kind, *_ in before)


def test_the_source_map_records_the_reason_of_every_name() -> None:
    names = {(n.kind, n.where, n.name): n.why for n in small().source_map.names}
    assert names["member", "Layer", "down"] == "state-dict key of the weight `layers.0.down.weight`"
    assert {kind for kind, _, _ in names} == {"class", "member", "argument", "variable"}


def test_an_unknown_name_suggests_near_ones() -> None:
    with pytest.raises(onnxlift.OnnxLiftError, match=r"nothing called `hiden` .* Did you mean `hidden`"):
        small().explain("hiden")
    with pytest.raises(onnxlift.OnnxLiftError, match=r"of this name\.$"):
        small().explain("zzzzzzzzzzzz")


def test_a_node_tells_which_idiom_took_it() -> None:
    model = attentions(explain=True)
    story = model.explain("/layers.0/Softmax").node
    assert story is not None and story.changes == ["attention: part of Attention `/layers.0/MatMul_1`"]
    assert "F.scaled_dot_product_attention" in model.source.splitlines()[story.lines[0] - 1]
    assert "became Attention" in str(model.explain("/layers.1/MatMul_1"))
    assert "linear: became Linear" in str(model.explain("/layers.0/first/MatMul"))


def test_a_node_tells_which_idiom_nearly_took_it() -> None:
    proto = parse(
        "g (float[batch, 5, 8] x) => (float[batch, 5, 8] y, float[batch, 5, 5] p) { t = Transpose <perm = [0, 2, 1]> "
        "(x) s = MatMul(x, t) p = Softmax <axis = -1> (s) y = MatMul(p, x) }"
    )
    for node, name in zip(proto.graph.node, ("turn", "score", "weigh", "attend"), strict=True):
        node.name = name
    model = onnxlift.lift(proto, explain=True)
    assert "  not       attention: others read the probabilities\n" in str(model.explain("weigh"))
    assert "attention: others read the probabilities (at weigh)" in str(model.explain("attend"))


def test_without_having_been_asked_before_a_node_has_only_its_lines() -> None:
    text = str(attentions().explain("/Exp"))
    assert "unknown: lift with explain=True" in text and "  lines     " in text


def test_names_of_a_stranger_do_not_reach_the_terminal_as_they_are() -> None:
    proto = parse("g (float[n, 4] x) => (float[n, 4] y) { y = Sin(x) }")
    proto.graph.node[0].name = "\x1b[2Jboo"
    assert "\x1b" not in str(onnxlift.lift(proto).explain("\x1b[2Jboo"))
