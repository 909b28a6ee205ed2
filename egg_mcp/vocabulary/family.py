"""OperatorFamily: what kind of work a Problem is made of; selects guidelines."""

from __future__ import annotations

from enum import StrEnum


class OperatorFamily(StrEnum):
    """One kind of work. A Problem has one or several."""

    GEMM = "gemm"
    CONVOLUTION = "convolution"
    ATTENTION = "attention"
    SOFTMAX = "softmax"
    NORMALIZATION = "normalization"
    REDUCTION = "reduction"
    ELEMENTWISE = "elementwise"
    POOLING = "pooling"
    LOSS = "loss"
    SCAN = "scan"
    GATHER_SCATTER = "gather_scatter"
    RECURRENT = "recurrent"
    LAYOUT = "layout"


_BY_OPERATOR: dict[OperatorFamily, frozenset[str]] = {
    OperatorFamily.GEMM: frozenset(
        [
            "mm",
            "addmm",
            "bmm",
            "baddbmm",
            "matmul",
            "linear",
            "addmv",
            "mv",
            "dot",
            "einsum",
            "_addmm_activation",
        ]
    ),
    OperatorFamily.CONVOLUTION: frozenset(
        [
            "convolution",
            "_convolution",
            "conv1d",
            "conv2d",
            "conv3d",
            "conv_transpose2d",
            "mkldnn_convolution",
            "cudnn_convolution",
        ]
    ),
    OperatorFamily.ATTENTION: frozenset(
        [
            "scaled_dot_product_attention",
            "_scaled_dot_product_flash_attention",
            "_scaled_dot_product_flash_attention_for_cpu",
            "_scaled_dot_product_efficient_attention",
            "_scaled_dot_product_attention_math",
        ]
    ),
    OperatorFamily.SOFTMAX: frozenset(["_softmax", "_log_softmax", "softmax", "log_softmax"]),
    OperatorFamily.NORMALIZATION: frozenset(
        [
            "native_layer_norm",
            "native_group_norm",
            "native_batch_norm",
            "_native_batch_norm_legit",
            "_native_batch_norm_legit_no_training",
            "cudnn_batch_norm",
            "layer_norm",
            "rms_norm",
            "_fused_rms_norm",
            "linalg_vector_norm",
            "renorm",
            "var_mean",
        ]
    ),
    OperatorFamily.REDUCTION: frozenset(
        [
            "sum",
            "mean",
            "amax",
            "amin",
            "max",
            "min",
            "prod",
            "norm",
            "logsumexp",
            "argmax",
            "argmin",
            "var",
            "std",
            "any",
            "all",
        ]
    ),
    OperatorFamily.POOLING: frozenset(
        [
            "max_pool2d",
            "max_pool2d_with_indices",
            "max_pool3d_with_indices",
            "avg_pool2d",
            "avg_pool3d",
            "avg_pool1d",
            "adaptive_avg_pool2d",
            "_adaptive_avg_pool2d",
            "_adaptive_avg_pool3d",
        ]
    ),
    OperatorFamily.LOSS: frozenset(
        [
            "nll_loss_forward",
            "nll_loss2d_forward",
            "mse_loss",
            "smooth_l1_loss",
            "huber_loss",
            "kl_div",
            "binary_cross_entropy",
            "binary_cross_entropy_with_logits",
            "l1_loss",
        ]
    ),
    OperatorFamily.SCAN: frozenset(["cumsum", "cumprod", "cummax", "cummin", "logcumsumexp"]),
    OperatorFamily.GATHER_SCATTER: frozenset(
        [
            "gather",
            "scatter",
            "scatter_add",
            "index_select",
            "index",
            "index_add",
            "embedding",
            "index_put",
            "index_put_",
            "topk",
            "sort",
            "take",
        ]
    ),
    OperatorFamily.RECURRENT: frozenset(
        ["lstm", "gru", "rnn_tanh", "rnn_relu", "_thnn_fused_lstm_cell"]
    ),
    OperatorFamily.LAYOUT: frozenset(
        ["cat", "stack", "roll", "flip", "repeat", "constant_pad_nd", "clone"]
    ),
}

_NO_WORK = frozenset(
    [
        "empty",
        "empty_like",
        "empty_strided",
        "view",
        "_unsafe_view",
        "reshape",
        "t",
        "transpose",
        "permute",
        "expand",
        "detach",
        "alias",
        "unsqueeze",
        "squeeze",
        "as_strided",
        "slice",
        "select",
        "new_empty",
        "lift_fresh",
        "split",
        "unbind",
        "_reshape_alias",
        "unfold",
        "to",
        "_to_copy",
        "zeros",
        "zeros_like",
        "ones",
        "full",
        "fill_",
        "zero_",
        "copy_",
        "is_same_size",
        "sym_size",
        "resolve_conj",
        "resolve_neg",
    ]
)


def families_of(operators: dict[str, int]) -> tuple[OperatorFamily, ...]:
    """The families of the aten operators seen in one forward, each once, in order of the enum.

    Args:
        operators: operator name without namespace and overload -> how often it ran.

    >>> families_of({"addmm": 1, "relu": 1, "view": 2})
    (<OperatorFamily.GEMM: 'gemm'>, <OperatorFamily.ELEMENTWISE: 'elementwise'>)
    """
    found: set[OperatorFamily] = set()
    for operator in operators:
        if operator in _NO_WORK:
            continue
        named = [family for family, names in _BY_OPERATOR.items() if operator in names]
        found.update(named or [OperatorFamily.ELEMENTWISE])
    return tuple(family for family in OperatorFamily if family in found)


def compute_operators(operators: dict[str, int]) -> dict[str, int]:
    """Those of the operators that move or compute values: not allocation, views or copies.

    >>> compute_operators({"empty": 3, "mm": 1})
    {'mm': 1}
    """
    return {name: count for name, count in operators.items() if name not in _NO_WORK}
