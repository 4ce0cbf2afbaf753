"""What variables are called: as the graph calls them where that says something, by what they are otherwise."""

from __future__ import annotations

import numpy as np
import onnx
import pytest

import onnxlift
from onnxlift.lifting.text.write import without_numbers
from small_graphs import Graph, code, compare, step


def test_inputs_keep_their_names() -> None:
    g = Graph()
    a, b = g.input("pixel_values", "n", 4), g.input("query-mask", "n", 4)
    assert "def forward(self, pixel_values: Tensor, query_mask: Tensor) -> Tensor:" in code(g.lift(g.node("Mul", a, b)))


def test_a_name_that_speaks_is_kept() -> None:
    g = Graph()
    h = g.node("MatMul", g.input("x", "n", 4), g.weight("fc_weight", 4, 4), output="projected")
    h = g.node("Tanh", g.node("Sin", h), output="gated")
    lifted = g.lift(g.node("Add", h, g.node("Exp", h, output="val_7")))
    assert "gated = " in lifted.source and "val_" not in code(lifted)


def test_a_straight_line_rebinds_x() -> None:
    g = Graph()
    x = g.input("x", "n", 4)
    for i in range(12):
        x = g.node("Sin", g.linear(x, f"layer{chr(97 + i)}"))
    lines = [line.strip() for line in code(g.lift(x)).partition("def forward")[2].splitlines()[1:]]
    assert len(lines) > 2 and all(line.startswith("x = ") for line in lines[:-1])


def test_x_is_not_rebound_while_it_is_needed() -> None:
    g = Graph()
    x = g.input("x", "n", 4)
    h = x
    for i in range(12):
        h = g.node("Sin", g.linear(h, f"layer{chr(97 + i)}"))
    lifted = g.lift(g.node("Add", h, x))  # compares the numbers
    assert "+ x" in lifted.source


def test_module_parameters_are_called_by_what_they_are() -> None:
    g = Graph()
    x, mask = g.input("hidden", "n", 4), g.input("mask", "n", 4)
    for i in range(2):
        h = g.node("Mul", g.linear(x, f"layers.{i}.a"), mask, name=f"/layers.{i}/Mul")
        x = g.node("Sin", g.linear(h, f"layers.{i}.b"), name=f"/layers.{i}/Sin")
    text = code(g.lift(g.node("Cos", x, name="/Cos")))
    assert "def forward(self, x: Tensor, mask: Tensor) -> Tensor:" in text


def test_only_a_tensor_takes_over_the_name_whose_device_is_asked_for() -> None:
    """`length` is an input, and a dimension; the input is dead when its size gets a name."""
    model = onnx.parser.parse_model(
        """
        <ir_version: 10, opset_import: ["" : 18]>
        sizes (float[length, 3] length) => (int64[k] y, float[one] z)
        {
            shape = Shape <start = 0, end = 1> (length)
            two = Constant <value_ints = [2]> ()
            zero = Constant <value_int = 0> ()
            one = Constant <value_int = 1> ()
            double = Mul(shape, two)
            more = Add(double, shape)
            limit = Squeeze(more)
            y = Range(zero, limit, one)
            again = Mul(more, more)
            f = Cast <to = 1> (again)
            z = Sqrt(f)
        }
        """
    )
    lifted = onnxlift.lift(model)
    compare(lifted, model, {"length": np.ones((4, 3), np.float32)})


def test_what_is_computed_side_by_side_has_different_names() -> None:
    g = Graph()
    x = g.input("x", "n", 4)
    heads = [g.node("Exp", g.linear(x, f"{name}_proj")) for name in "qkv"]
    total = g.node("Mul", g.node("Add", heads[0], heads[1]), heads[2])
    lifted = g.lift(g.node("Add", total, g.node("Add", g.node("Mul", heads[0], heads[1]), heads[2])))
    for name in "qkv":
        assert f"{name} = self.{name}_proj(x).exp()" in lifted.source


def test_an_input_of_the_model_has_its_own_name_in_the_modules_that_hand_it_on() -> None:
    """`model.decoder` calls `decoder_tokens` just tokens; `model`, which hands both on, must not."""
    g = Graph()
    x, y = g.input("tokens", "n", 4), g.input("decoder_tokens", "n", 4)
    for i, path in enumerate(("model.encoder", "model.decoder")):
        scope = path.replace(".", "/")
        source = (x, y)[i] if i == 0 else g.node("Sub", x, y, name=f"/{scope}/Sub")
        x = g.node("Sin", g.linear(source, f"{path}.fc"), name=f"/{scope}/Sin")
    text = code(g.lift(g.node("Cos", x, name="/Cos")))
    assert "def forward(self, x: Tensor, decoder_tokens: Tensor) -> Tensor:" in text, text
    assert "_1" not in text, text


def test_the_number_of_a_block_is_no_part_of_a_name_in_it() -> None:
    """Keys of the steps before, as decoders are given them, and those that they give back, last."""
    g = Graph()
    x = g.input("x", "n", 4)
    presents = []
    for i in range(2):
        past = g.input(f"past.{i}.key", "n", 4)
        key = g.linear(x, f"layers.{i}.k_proj")
        presents.append(g.node("Add", key, past, name=f"/layers.{i}/Add", output=f"present.{i}.key"))
        y = g.node("Tanh", g.node("Mul", x, presents[-1], name=f"/layers.{i}/Mul"), name=f"/layers.{i}/Tanh")
        x = g.linear(y, f"layers.{i}.o_proj")
    text = code(g.lift(g.node("Cos", x, name="/Cos"), *presents))
    layer, _, model = text.partition("class Small(")
    assert "def forward(self, x: Tensor, past_key: Tensor) -> tuple[Tensor, Tensor]:" in layer, text
    assert layer.rstrip().endswith(", present_key"), text
    assert "for layer, past_key in zip(self.layers, (past_0_key, past_1_key)):" in model, text
    assert "x, present_key = layer(x, past_key)" in model, text


@pytest.mark.parametrize("norm", ["norm1", "ln_1", "ln_final", "post_layernorm"])
def test_a_line_of_computation_is_not_called_after_its_norm(norm: str) -> None:
    g = Graph()
    x = g.input("x", "n", 4)
    h = g.node("LayerNormalization", x, g.weight(f"{norm}.weight", 4), g.weight(f"{norm}.bias", 4), name=f"/{norm}/N")
    h = g.node("Mul", g.node("Sin", h, name="/Sin"), h, name="/Mul")
    text = code(g.lift(g.node("Add", x, h, name="/Add")))
    assert f"y = self.{norm}(x)" in text, text


def test_what_waits_to_be_joined_has_its_own_name_and_x_is_worked_on() -> None:
    g = Graph()
    down = step(g, g.input("x", "n", 4), "down")
    middle = step(g, down, "middle")
    x = g.node("Sin", g.node("Concat", middle, down, axis=1))
    assert_forward(g.lift(x), ["down = self.down(x)", "x = self.middle(down)", "return torch.cat((x, down), 1).sin()"])


def test_a_parameter_that_is_only_added_is_a_residual_but_not_to_its_caller() -> None:
    g = Graph()
    start = step(g, g.input("x", "n", 4), "start")
    dense = step(g, start, "dense")
    total = g.node("Add", g.linear(dense, "out.fc"), start, name="/out/Add")
    lifted = g.lift(g.linear(g.node("Sin", total, name="/out/Sin"), "out.last"))
    assert "def forward(self, x: Tensor, residual: Tensor) -> Tensor:" in lifted.source
    assert_forward(lifted, ["x = self.start(x)", "return self.out(self.dense(x), x)"])


def test_query_key_and_value_have_their_names_where_attention_is_written_out() -> None:
    model = onnx.parser.parse_model("""
        <ir_version: 8, opset_import: ["": 18]>
        agraph (float[n, 5, 12] x) => (float[n, 5, 4] result) {
            val_0, val_1, val_2 = Split <axis = -1, num_outputs = 3> (x)
            turned = Transpose <perm = [0, 2, 1]> (val_1)
            products = MatMul(val_0, turned)
            capped = Tanh(products)
            shares = Softmax <axis = -1> (capped)
            result = MatMul(shares, val_2)
        }
    """)
    assert "q, k, v = x.chunk(3, -1)" in onnxlift.lift(model).source


@pytest.mark.parametrize("name", ["input.36", "input5", "conv2d_401.tmp_0", "p2o.Add.7", "mean_2", "add_177_2", "x.4"])
def test_what_an_exporter_counts_has_no_name(name: str) -> None:
    g = Graph()
    x = g.input("signal", "n", 4)
    for i in range(4):
        x = g.node("Tanh", g.linear(x, f"layer{chr(97 + i)}"), output=name if i == 2 else f"val_s{i}")
        x = g.node("Mul", x, g.node("Exp", x))
    lines = code(g.lift(x)).partition("def forward")[2].splitlines()[1:-1]
    assert {line.split(" = ")[0].strip() for line in lines} == {"x"}


def test_the_number_that_sets_names_apart_is_left_out() -> None:
    g = Graph()
    h = g.node("MatMul", g.input("x.1", "n", 4), g.weight("fc_weight", 4, 4), output="projected.3")
    text = code(g.lift(g.node("Add", h, g.node("Exp", h))))
    assert "def forward(self, x: Tensor)" in text and "projected = " in text


def test_inputs_of_the_model_are_not_rebound() -> None:
    g = Graph()
    x = g.node("Tanh", g.linear(g.input("pixel_values", "n", 4), "a"))
    x = g.node("Mul", x, g.node("Exp", x))
    assert_forward(g.lift(x), ["x = self.a(pixel_values).tanh()", "return x * x.exp()"])


def test_inputs_have_the_names_that_people_gave_them() -> None:
    g = Graph()
    h = g.node("Mul", g.input("h0", "n", 4), g.input("serving_default_audio:0", "n", 4))
    text = code(g.lift(g.node("Mul", h, g.input("onnx::Gemm_0", "n", 4))))
    assert "def forward(self, h0: Tensor, audio: Tensor, x: Tensor)" in text


def test_only_what_something_is_multiplied_with_is_a_gate() -> None:
    g = Graph()
    x = g.input("x", "n", 4)
    gate = g.node("Sigmoid", g.linear(x, "a"))
    probability = g.node("Sigmoid", g.linear(g.node("Mul", g.node("Mul", x, gate), gate), "b"))
    text = code(g.lift(g.node("Add", g.node("Sin", probability), g.node("Cos", probability))))
    assert "gate = self.a(x).sigmoid()" in text and "x = self.b(x * gate * gate).sigmoid()" in text, text


def test_what_is_computed_from_a_parameter_is_called_after_it() -> None:
    g = Graph()
    slopes = g.node("Transpose", g.weight("slopes", 4, 4), perm=[1, 0])
    text = code(g.lift(g.node("Mul", g.node("Sin", g.node("Add", g.input("x", 4, 4), slopes)), slopes)))
    assert "slopes = self.slopes.T" in text and "(x + slopes).sin() * slopes" in text, text


def test_what_a_layers_function_is_given_is_its_weight_and_bias() -> None:
    g = Graph()
    line = g.node("Sin", g.node("Mul", g.input("x", "n", 4), g.input("y", "n", 4)))
    kernel = g.node("Relu", g.node("Neg", g.input("z", 4, 4)))
    lifted = g.lift(
        g.node("Conv", g.node("Unsqueeze", line, g.constant("axes", [2])), g.node("Unsqueeze", kernel, "axes"))
    )
    assert "F.conv1d(" in lifted.source and "weight = " in code(lifted), lifted.source


def test_a_name_that_is_a_word_of_python_keeps_its_ending() -> None:
    g = Graph()
    x = g.input("x", "n", 4)
    projected = g.linear(x, "in_proj")
    text = code(g.lift(g.node("Add", g.node("Sin", projected), g.node("Mul", projected, g.node("Exp", x)))))
    assert "in_proj = self.in_proj(x)" in text, text


def test_the_parts_of_a_query_that_is_turned_in_part() -> None:
    turned = """
        h{0}0, h{0}1 = Split <axis = -1, num_outputs = 2> ({0}0)
        n{0} = Neg(h{0}1) r{0} = Concat <axis = -1> (n{0}, h{0}0)
        c{0} = Mul({0}0, cos) s{0} = Mul(r{0}, sin) t{0} = Add(c{0}, s{0})
        {0}2 = Concat <axis = -1> (t{0}, {0}1)
    """
    model = onnx.parser.parse_model(f"""
        <ir_version: 8, opset_import: ["": 18]>
        agraph (float[n, 2, 5, 24] x, float[5, 4] cos, float[5, 4] sin) => (float[n, 2, 5, 8] result) {{
            a, b, c = Split <axis = -1, num_outputs = 3> (x)
            a0, a1 = Split <axis = -1, num_outputs = 2> (a)
            b0, b1 = Split <axis = -1, num_outputs = 2> (b)
            {turned.format("a")} {turned.format("b")}
            keys = Transpose <perm = [0, 1, 3, 2]> (b2)
            products = MatMul(a2, keys)
            shares = Softmax <axis = -1> (products)
            result = MatMul(shares, c)
        }}
    """)
    text = code(onnxlift.lift(model))
    assert "q_rot, q_pass = " in text and "q = torch.cat((apply_rotary(q_rot, cos, sin), q_pass), -1)" in text, text


def test_what_is_added_to_the_scores_is_a_bias_and_what_has_two_numbers_a_mask() -> None:
    g = Graph()
    x, y = g.input("x", "n", 4), g.input("y", "n", "n")
    allowed = g.node("Greater", y, g.constant("zero", np.float32(0)), name="/Greater")
    mask = g.node("Where", allowed, g.constant("none", np.float32(0)), g.constant("all", np.float32(-9)), name="/Where")
    for i in range(2):
        path = f"layers.{i}.attn"
        keys = g.node("Transpose", g.linear(x, f"{path}.k"), perm=[1, 0], name=f"/layers.{i}/attn/Transpose")
        h = g.node("MatMul", g.linear(x, f"{path}.q"), keys, name=f"/layers.{i}/attn/MatMul")
        h = g.node("Add", g.node("Add", h, y, name=f"/layers.{i}/attn/Add"), mask, name=f"/layers.{i}/attn/Add_1")
        h = g.node("Softmax", g.node("Tanh", h, name=f"/layers.{i}/attn/Tanh"), name=f"/layers.{i}/attn/Softmax")
        h = g.node("MatMul", h, g.linear(x, f"{path}.v"), name=f"/layers.{i}/attn/MatMul_1")
        x = g.node("Add", g.linear(h, f"{path}.o"), x, name=f"/layers.{i}/Add")
    text = code(g.lift(x))
    assert "residual" not in text and "mask: Tensor" in text.partition("class Layer")[0], text


def test_results_of_several_modules_of_a_kind_are_set_apart_by_numbers() -> None:
    g = Graph()
    x, results = g.input("x", "n", 4), []
    for path in ("near", "far"):
        angles = g.linear(g.linear(x, f"{path}.a"), f"{path}.b")
        results += [g.node(op_type, angles, name=f"/{path}/{op_type}") for op_type in ("Cos", "Sin")]
    first, second = g.node("Sub", *results[::2], name="/Sub"), g.node("Sub", *results[1::2], name="/Sub_1")
    text = code(g.lift(g.node("Mul", first, second, name="/Mul")))
    assert "cos, sin = self.near(x)" in text and "cos_1, sin_1 = self.far(x)" in text, text


LOOKED_UP = [("position_embeddings", "positions"), ("token_type_embeddings", "token_types")]


@pytest.mark.parametrize(("layer", "word"), LOOKED_UP)
def test_indices_are_called_by_what_is_looked_up_with_them(layer: str, word: str) -> None:
    g = Graph()
    indices = g.node("Cast", g.input("x", "n", 4), to=onnx.TensorProto.INT64)
    indices = g.node("Mul", indices, g.constant("none", np.int64(0)))
    table = g.weight(f"{layer}.weight", 6, 4)
    rows = g.node("Gather", table, indices, name=f"/{layer}/Gather")
    other = g.node("Gather", g.weight("words.weight", 6, 4), indices, name="/words/Gather")
    text = code(g.lift(g.node("Add", rows, other, name="/Add")))
    assert f"{word} = " in text, text


def test_what_positions_differ_by_and_what_is_looked_up_by_it_have_their_names() -> None:
    g = Graph()
    x = g.input("x", "n", 4)
    zero, one = g.constant("zero", np.int64(0)), g.constant("one", np.int64(1))
    size = g.node("Squeeze", g.node("Shape", x, start=0, end=1))
    positions = g.node("Range", zero, size, one)
    offsets = g.node("Sub", positions, g.node("Unsqueeze", positions, g.constant("last", np.array([1]))))
    distance = g.node("Min", g.node("Abs", offsets), g.constant("most", np.int64(3)))
    ahead = g.node("Cast", g.node("Greater", offsets, zero), to=onnx.TensorProto.INT64)
    index = g.node("Add", g.node("Mul", ahead, g.constant("eight", np.int64(4))), distance)
    index = g.node("Where", g.node("Less", distance, one), zero, index)
    near, far = (
        g.node("Gather", g.weight(f"{at}.weight", 8, 4), index, name=f"/{at}/Gather") for at in ("near", "far")
    )
    lifted = g.lift(g.node("Add", g.node("Mul", near, far, name="/Mul"), x, name="/Add"))
    assert_forward(
        lifted,
        [
            "positions = torch.arange(x.shape[0], device=x.device)",
            "offsets = positions - positions.unsqueeze(1)",
            "distance = offsets.abs().clamp(max=3)",
            "index = torch.where(distance < 1, 0, (offsets > 0).long() * 4 + distance)",
            "return self.near(index) * self.far(index) + x",
        ],
    )


def test_pieces_have_the_words_of_the_name_for_all_of_them() -> None:
    g = Graph()
    x = g.node(
        "MatMul", g.input("x", "n", 4), g.weight("mlp.gate_up_proj.weight", 4, 12), name="/mlp/gate_up_proj/MatMul"
    )
    ends = [g.constant(f"end{end}", np.array([end])) for end in (0, 6, 12)]
    last = g.constant("last", np.array([-1]))
    gate, up = (g.node("Slice", x, ends[i], ends[i + 1], last, name=f"/mlp/Slice_{i}") for i in range(2))
    gate = g.node("Mul", gate, g.node("Sigmoid", gate, name="/mlp/Sigmoid"), name="/mlp/Mul")
    text = code(g.lift(g.node("Cos", g.node("Mul", up, gate, name="/mlp/Mul_1"), name="/Cos")))
    assert "gate, up = self.gate_up_proj(x).chunk(2, 1)" in text, text


@pytest.mark.parametrize(
    ("names", "expected"),
    [
        (["x", "mask_1"], ["x", "mask"]),
        (["x", "index", "index_1"], ["x", "index", "index_1"]),
        (["if_1", None], ["if_", None]),  # no word of Python
    ],
)
def test_numbers_that_set_nothing_apart_are_left_out(names: list[str | None], expected: list[str | None]) -> None:
    assert without_numbers(names) == expected


def assert_forward(lifted: onnxlift.Lifted, expected: list[str]) -> None:
    """The lines of the last class's forward, that of the whole model, are these."""
    lines = code(lifted).rpartition("def forward")[2].splitlines()[1:]
    assert [line.strip() for line in lines if line.strip()] == expected


def test_what_a_mask_lets_through_to_the_scores_is_a_bias() -> None:
    """As in the relative position bias of T5."""
    g = Graph()
    x, low = g.input("x", "n", 4, 4), g.constant("onnx::low", np.float32(np.finfo(np.float32).min))
    kept = g.node("Greater", x, g.constant("onnx::zero", np.float32(0)))
    bias = g.node("Softplus", g.node("Sin", x))
    scores = g.node("MatMul", x, g.node("Transpose", x, perm=[0, 2, 1]))
    weights = g.node("Softmax", g.node("Add", scores, g.node("Where", kept, bias, low)))
    text = code(g.lift(g.node("MatMul", weights, x), bias))
    assert "bias = F.softplus(x.sin())" in text
    assert "torch.where(x > 0, bias, torch.finfo(torch.float32).min)" in text


def test_a_mask_made_of_the_second_mask_is_the_second() -> None:
    """As in ModernBERT, with its local and its global attention."""
    g = Graph()
    x, low = g.input("x", "n", 4, 4), g.constant("onnx::low", np.float32(np.finfo(np.float32).min))
    zero, one = g.constant("onnx::zero", np.float32(0)), g.constant("onnx::one", np.float32(1))
    masks = [g.node("Greater", x, limit) for limit in (zero, one)]
    numbers = [g.node("Where", mask, zero, low) for mask in masks]
    sums = [g.node("Add", g.node("Softmax", g.node("Add", x, mask)), g.node("Tanh", mask)) for mask in numbers]
    text = code(g.lift(*sums))
    assert "mask_1 = torch.where(x > 1, 0.0, torch.finfo(torch.float32).min)" in text


def test_a_mask_has_a_number_rather_than_a_letter_where_another_is_needed_still() -> None:
    g = Graph()
    x, mask = g.input("x", "n", 4, 4), g.input("mask", "n", 4, 4)
    zero, low = g.constant("onnx::zero", np.float32(0)), g.constant("onnx::low", np.float32(np.finfo(np.float32).min))
    bias = g.node("Where", g.node("Greater", mask, zero), g.node("Softplus", g.node("Sin", x)), low)
    scores = g.node("Add", g.node("MatMul", x, g.node("Transpose", x, perm=[0, 2, 1])), bias)
    attn = g.node("MatMul", g.node("Softmax", scores), x)
    text = code(g.lift(g.node("Add", attn, mask), g.node("Exp", bias)))
    assert "mask_1 = torch.where(mask > 0, " in text and "attn_mask=mask_1" in text


def written_again(*names: str) -> str:
    """A line of computation whose values have these names, each read twice."""
    g = Graph()
    x = g.input("signal", "n", 4)
    for name in names:
        x = g.node("Add", g.node("Sin", x), g.node("Cos", x), output=name)
    return code(g.lift(g.node("Add", g.node("Sin", x), g.node("Cos", x))))


def test_numbers_that_set_apart_the_values_of_one_variable_are_left_out() -> None:
    forward = written_again("signal_5", "signal_2_17", "level_3", "tmp_7_2")
    assert forward.count("signal = signal.sin() + signal.cos()") == 2
    assert "level_3 = signal.sin() + signal.cos()" in forward  # there is no `level`
    assert "x = level_3.sin() + level_3.cos()" in forward


def test_a_value_without_a_name_does_not_take_over_that_of_an_input() -> None:
    assert "x = signal.sin() + signal.cos()" in written_again("signal_5", "val_99")


def test_a_variable_that_is_still_needed_is_not_written_again() -> None:
    g = Graph()
    x = g.input("signal", "n", 4)
    y = g.node("Add", g.node("Sin", x), g.node("Cos", x), output="signal_1")
    total = g.node("Mul", g.node("Exp", x), g.node("Add", g.node("Sin", y), y))
    forward = code(g.lift(total))
    assert "signal_1 = signal.sin() + signal.cos()" in forward
