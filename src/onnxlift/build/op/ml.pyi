"""The operators of classical models (ai.onnx.ml), as functions. Written by tools/operator_stubs.py."""

from onnxlift.build.types import Array, Floats, Ints, Operand, Strings
from onnxlift.build.value import Value

def ArrayFeatureExtractor(X: Operand, Y: Operand, *, name: str | None = None) -> Value:
    """Select elements of the input tensor based on the indices passed.<br> The indices are applied to the last
    axes of the tensor.
    """

def Binarizer(X: Operand, *, threshold: float | None = None, name: str | None = None) -> Value:
    """Maps the values of the input tensor to either 0 or 1, element-wise, based on the outcome of a comparison
    against a threshold value.
    """

def CastMap(
    X: Operand,
    *,
    cast_to: str | None = None,
    map_form: str | None = None,
    max_map: int | None = None,
    name: str | None = None,
) -> Value:
    """Converts a map to a tensor.<br>The map key must be an int64 and the values will be ordered in ascending
    order based on this key.<br>The operator supports dense packing or sparse packing.
    """

def CategoryMapper(
    X: Operand,
    *,
    cats_int64s: Ints | None = None,
    cats_strings: Strings | None = None,
    default_int64: int | None = None,
    default_string: str | None = None,
    name: str | None = None,
) -> Value:
    """Converts strings to integers and vice versa.<br> Two sequences of equal length are used to map between
    integers and strings, with strings and integers at the same index detailing the mapping.<br> Each operator
    converts either integers to strings or strings to integers, depending on which default val
    """

def DictVectorizer(
    X: Operand,
    *,
    int64_vocabulary: Ints | None = None,
    string_vocabulary: Strings | None = None,
    name: str | None = None,
) -> Value:
    """Uses an index mapping to convert a dictionary to an array.<br> Given a dictionary, each key is looked up in
    the vocabulary attribute corresponding to the key type.
    """

def FeatureVectorizer(*X: Operand, inputdimensions: Ints | None = None, name: str | None = None) -> Value:
    """Concatenates input tensors into one continuous output.<br> All input shapes are 2-D and are concatenated
    along the second dimension.
    """

def Imputer(
    X: Operand,
    *,
    imputed_value_floats: Floats | None = None,
    imputed_value_int64s: Ints | None = None,
    replaced_value_float: float | None = None,
    replaced_value_int64: int | None = None,
    name: str | None = None,
) -> Value:
    """Replaces inputs that equal one value with another, leaving all other elements alone.<br> This operator is
    typically used to replace missing values in situations where they have a canonical representation, such as
    -1, 0, NaN, or some extreme value.<br> One and only one of imputed_value_floats or impu
    """

def LabelEncoder(
    X: Operand,
    *,
    classes_strings: Strings | None = None,
    default_float: float | None = None,
    default_int64: int | None = None,
    default_string: str | None = None,
    default_tensor: Array | None = None,
    keys_floats: Floats | None = None,
    keys_int64s: Ints | None = None,
    keys_strings: Strings | None = None,
    keys_tensor: Array | None = None,
    values_floats: Floats | None = None,
    values_int64s: Ints | None = None,
    values_strings: Strings | None = None,
    values_tensor: Array | None = None,
    name: str | None = None,
) -> Value:
    """Maps each element in the input tensor to another value.<br> The mapping is determined by the two parallel
    attributes, 'keys_*' and 'values_*' attribute.
    """

def LinearClassifier(
    X: Operand,
    *,
    outputs: int | None = None,
    classlabels_ints: Ints | None = None,
    classlabels_strings: Strings | None = None,
    coefficients: Floats | None = None,
    intercepts: Floats | None = None,
    multi_class: int | None = None,
    post_transform: str | None = None,
    name: str | None = None,
) -> tuple[Value, ...]:
    """Linear classifier"""

def LinearRegressor(
    X: Operand,
    *,
    coefficients: Floats | None = None,
    intercepts: Floats | None = None,
    post_transform: str | None = None,
    targets: int | None = None,
    name: str | None = None,
) -> Value:
    """Generalized linear regression evaluation.<br> If targets is set to 1 (default) then univariate regression is
    performed.<br> If targets is set to M then M sets of coefficients must be passed in as a sequence and M
    results will be output for each input n in N.<br> The coefficients array is of length n
    """

def Normalizer(X: Operand, *, norm: str | None = None, name: str | None = None) -> Value:
    """Normalize the input. There are three normalization modes, which have the corresponding formulas, defined
    using element-wise infix operators '/' and '^' and tensor-wide functions 'max' and 'sum':<br> <br> Max: Y =
    X / max(X)<br> L1: Y = X / sum(X)<br> L2: Y = sqrt(X^2 / sum(X^2)}<br> In all modes, if
    """

def OneHotEncoder(
    X: Operand,
    *,
    cats_int64s: Ints | None = None,
    cats_strings: Strings | None = None,
    zeros: int | None = None,
    name: str | None = None,
) -> Value:
    """Replace each input element with an array of ones and zeros, where a single one is placed at the index of the
    category that was passed in.
    """

def SVMClassifier(
    X: Operand,
    *,
    outputs: int | None = None,
    classlabels_ints: Ints | None = None,
    classlabels_strings: Strings | None = None,
    coefficients: Floats | None = None,
    kernel_params: Floats | None = None,
    kernel_type: str | None = None,
    post_transform: str | None = None,
    prob_a: Floats | None = None,
    prob_b: Floats | None = None,
    rho: Floats | None = None,
    support_vectors: Floats | None = None,
    vectors_per_class: Ints | None = None,
    name: str | None = None,
) -> tuple[Value, ...]:
    """Support Vector Machine classifier"""

def SVMRegressor(
    X: Operand,
    *,
    coefficients: Floats | None = None,
    kernel_params: Floats | None = None,
    kernel_type: str | None = None,
    n_supports: int | None = None,
    one_class: int | None = None,
    post_transform: str | None = None,
    rho: Floats | None = None,
    support_vectors: Floats | None = None,
    name: str | None = None,
) -> Value:
    """Support Vector Machine regression prediction and one-class SVM anomaly detection."""

def Scaler(X: Operand, *, offset: Floats | None = None, scale: Floats | None = None, name: str | None = None) -> Value:
    """Rescale input data, for example to standardize features by removing the mean and scaling to unit variance."""

def TreeEnsemble(
    X: Operand,
    *,
    aggregate_function: int | None = None,
    leaf_targetids: Ints | None = None,
    leaf_weights: Array | None = None,
    membership_values: Array | None = None,
    n_targets: int | None = None,
    nodes_falseleafs: Ints | None = None,
    nodes_falsenodeids: Ints | None = None,
    nodes_featureids: Ints | None = None,
    nodes_hitrates: Array | None = None,
    nodes_missing_value_tracks_true: Ints | None = None,
    nodes_modes: Array | None = None,
    nodes_splits: Array | None = None,
    nodes_trueleafs: Ints | None = None,
    nodes_truenodeids: Ints | None = None,
    post_transform: int | None = None,
    tree_roots: Ints | None = None,
    name: str | None = None,
) -> Value:
    """Tree Ensemble operator."""

def TreeEnsembleClassifier(
    X: Operand,
    *,
    outputs: int | None = None,
    base_values: Floats | None = None,
    base_values_as_tensor: Array | None = None,
    class_ids: Ints | None = None,
    class_nodeids: Ints | None = None,
    class_treeids: Ints | None = None,
    class_weights: Floats | None = None,
    class_weights_as_tensor: Array | None = None,
    classlabels_int64s: Ints | None = None,
    classlabels_strings: Strings | None = None,
    nodes_falsenodeids: Ints | None = None,
    nodes_featureids: Ints | None = None,
    nodes_hitrates: Floats | None = None,
    nodes_hitrates_as_tensor: Array | None = None,
    nodes_missing_value_tracks_true: Ints | None = None,
    nodes_modes: Strings | None = None,
    nodes_nodeids: Ints | None = None,
    nodes_treeids: Ints | None = None,
    nodes_truenodeids: Ints | None = None,
    nodes_values: Floats | None = None,
    nodes_values_as_tensor: Array | None = None,
    post_transform: str | None = None,
    name: str | None = None,
) -> tuple[Value, ...]:
    """Tree Ensemble classifier."""

def TreeEnsembleRegressor(
    X: Operand,
    *,
    aggregate_function: str | None = None,
    base_values: Floats | None = None,
    base_values_as_tensor: Array | None = None,
    n_targets: int | None = None,
    nodes_falsenodeids: Ints | None = None,
    nodes_featureids: Ints | None = None,
    nodes_hitrates: Floats | None = None,
    nodes_hitrates_as_tensor: Array | None = None,
    nodes_missing_value_tracks_true: Ints | None = None,
    nodes_modes: Strings | None = None,
    nodes_nodeids: Ints | None = None,
    nodes_treeids: Ints | None = None,
    nodes_truenodeids: Ints | None = None,
    nodes_values: Floats | None = None,
    nodes_values_as_tensor: Array | None = None,
    post_transform: str | None = None,
    target_ids: Ints | None = None,
    target_nodeids: Ints | None = None,
    target_treeids: Ints | None = None,
    target_weights: Floats | None = None,
    target_weights_as_tensor: Array | None = None,
    name: str | None = None,
) -> Value:
    """Tree Ensemble regressor."""

def ZipMap(
    X: Operand,
    *,
    classlabels_int64s: Ints | None = None,
    classlabels_strings: Strings | None = None,
    name: str | None = None,
) -> Value:
    """Creates a map from the input and the attributes.<br> The values are provided by the input tensor, while the
    keys are specified by the attributes.
    """
