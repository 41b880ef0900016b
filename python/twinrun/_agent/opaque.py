# SPDX-License-Identifier: Apache-2.0
"""Outputs that nobody reads as numbers: work buffers that an operation hands to its own backward,
and seeds of its own.

Their bytes are memory that was partly never written, packed in a format of the library's, or stand
for a generator's state, which is recorded by itself. They are neither recorded nor compared, and no
replay is judged by them: as an output by their place, as an argument of the operation that takes
them back by their name. What a consumer does read as numbers (masks of dropout, indices of a
maximum, saved means, logsumexp) is a result, and stays.
"""

OUTPUTS = {
    # operation: {place among its outputs}
    # oneDNN's workspace: bytes, allocated and filled in part
    "aten::mkldnn_rnn_layer": {3},
    "aten::_cudnn_rnn": {3, 4},  # reserve space; the weights once more, packed with gaps
    "aten::miopen_rnn": {3, 4},  # as cuDNN's
    "aten::cudnn_batch_norm": {3},  # reserve space of the fused kernels
    "aten::_batch_norm_with_update": {3},  # reserve
    "aten::_batch_norm_with_update_functional": {3},  # reserve
    # offsets, sizes and maxima for a backward that never runs
    "aten::_embedding_bag_forward_only": {1, 2, 3},
    # state of its generator, an unused tensor, a mask for debugging
    "aten::_scaled_dot_product_flash_attention": {6, 7, 8},
    "aten::_flash_attention_forward": {2, 3, 4},  # the same
    "aten::_scaled_dot_product_efficient_attention": {2, 3},  # seed and offset of its generator
    "aten::_efficient_attention_forward": {2, 3},  # the same
    "aten::_scaled_dot_product_cudnn_attention": {6, 7, 8},  # seed, offset, a mask for debugging
    "aten::_cudnn_attention_forward": {6, 7, 8},  # the same
    "aten::_scaled_dot_product_fused_attention_overrideable": {6, 7, 8},  # the same
}

ARGUMENTS = {
    # operation: {name of an argument that takes such a buffer back}
    "aten::mkldnn_rnn_layer_backward": {"workspace"},
    "aten::_cudnn_rnn": {"weight_buf"},
    "aten::_cudnn_rnn_backward": {"weight_buf", "reserve"},
    "aten::miopen_rnn_backward": {"weight_buf", "reserve"},
    "aten::cudnn_batch_norm_backward": {"reserveSpace"},
    "aten::batch_norm_backward": {"reserve"},
    "aten::_scaled_dot_product_flash_attention_backward": {"philox_seed", "philox_offset"},
    "aten::_flash_attention_backward": {"rng_state", "unused"},
    "aten::_scaled_dot_product_efficient_attention_backward": {"philox_seed", "philox_offset"},
    "aten::_efficient_attention_backward": {"philox_seed", "philox_offset"},
    "aten::_scaled_dot_product_cudnn_attention_backward": {"philox_seed", "philox_offset"},
    "aten::_cudnn_attention_backward": {"philox_seed", "philox_offset"},
    "aten::_scaled_dot_product_fused_attention_overrideable_backward": {
        "philox_seed",
        "philox_offset",
    },
}


def outputs(name, result):
    """What of an operation's result is compared; the other places are left empty, so that the rest
    keep theirs.
    """
    hidden = OUTPUTS.get(name)
    if hidden is None or not isinstance(result, (tuple, list)):
        return result
    return [None if i in hidden else value for i, value in enumerate(result)]


def arguments(name, schema, args, kwargs):
    """The same of its arguments: (args, kwargs)."""
    hidden = ARGUMENTS.get(name)
    if hidden is None:
        return args, kwargs
    named = [argument.name for argument in schema.arguments]
    args = tuple(None if named[i] in hidden else value for i, value in enumerate(args))
    return args, {key: value for key, value in kwargs.items() if key not in hidden}
