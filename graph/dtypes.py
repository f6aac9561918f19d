"""Element types: how many bits one element takes."""

from __future__ import annotations

import re

from .errors import GraphError

_ALIASES = {"bf16": "bfloat16", "fp16": "float16", "half": "float16", "fp32": "float32", "bool": "int8", "handle": "uint64"}


def canonical_dtype(dtype: str) -> str:
    """The canonical spelling of an element type (`bf16` -> `bfloat16`)."""
    return _ALIASES.get(dtype, dtype)


def dtype_bits(dtype: str) -> int:
    """Bits of one element of `dtype`, e.g. 16 for `float16`, 8 for `float8_e4m3fn`, 4 for `float4_e2m1fn`.

    Raises:
        GraphError: the name holds no width.
    """
    match = re.match(r"(?:b?float|u?int|tfloat)(\d+)", canonical_dtype(dtype))
    if not match:
        raise GraphError(f"unknown element type {dtype!r}", fix="Use names such as float16, bfloat16, float8_e4m3fn, int32.")
    return int(match.group(1))
