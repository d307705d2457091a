"""What to use instead of an op of another framework that insitu does not have."""

from __future__ import annotations

# a foreign op we do not have -> what to use instead
INSTEAD = {
    "lstm": "a 1-D convolution over the sequence",
    "gru": "a 1-D convolution over the sequence",
    "LSTM": "a 1-D convolution over the sequence",
    "GRU": "a 1-D convolution over the sequence",
    "UNIDIRECTIONAL_SEQUENCE_LSTM": "a 1-D convolution over the sequence",
    "RESIZE_BILINEAR": "nearest-neighbour resizing",
    "InstanceNormalization": "batch or layer normalisation",
    "LRN": "batch or layer normalisation",
    "LOCAL_RESPONSE_NORMALIZATION": "batch or layer normalisation",
    "NonMaxSuppression": "nothing: cut the model before its post-processing",
    "NON_MAX_SUPPRESSION_V4": "nothing: cut the model before its post-processing",
    "ARG_MAX": "nothing: cut the model before it, and take the argmax of the scores yourself",
    **dict.fromkeys(("CALL_ONCE", "VAR_HANDLE", "READ_VARIABLE", "ASSIGN_VARIABLE"), "constants: freeze its variables"),
    "ArgMax": "nothing: cut the model before it, and take the argmax of the scores yourself",
}


def instead_of(op: str) -> str:
    """The hint of an error about this op."""
    if op in INSTEAD:
        return f"instead of {op}: {INSTEAD[op]}"
    return f"export the model without {op}, or cut it before that op; `insitu ops` lists what is supported"
