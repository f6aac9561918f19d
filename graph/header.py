"""The JSON header of a graph file: everything but the arrays, with the ranges that the rest of gtsim may rely on."""

from __future__ import annotations

from typing import Annotated, Any, Literal

from pydantic import BaseModel, ConfigDict, Field

from .dtypes import dtype_bits

Count = Annotated[int, Field(ge=0, lt=2**31)]
Positive = Annotated[int, Field(ge=1, lt=2**31)]
Extent = Annotated[int, Field(ge=0, lt=2**40)]
Stride = Annotated[int, Field(ge=0, lt=2**46)]
Scalar = bool | int | Annotated[float, Field(allow_inf_nan=False)] | str | None


class _Strict(BaseModel):
    model_config = ConfigDict(strict=True, extra="forbid")


class LaunchHeader(_Strict):
    """:class:`~gtsim.graph.model.Launch` in a file."""

    grid: Annotated[list[Positive], Field(min_length=3, max_length=3)]
    threads: Positive
    cluster: Annotated[list[Positive], Field(min_length=3, max_length=3)]
    smem_bytes: Count
    registers_per_thread: Count
    barriers: Count
    tmem_columns: Count
    arch: Annotated[str, Field(pattern=r"^(sm_\d{2,3}[a-z]?)?$")]


class BufferHeader(_Strict):
    """:class:`~gtsim.graph.model.Buffer` in a file."""

    name: str
    scope: Literal["global", "shared", "fragment", "local", "tmem", "remote_shared"]
    dtype: str
    shape: Annotated[list[Extent], Field(min_length=1, max_length=8)]
    strides: Annotated[list[Stride], Field(max_length=8)]
    swizzle_bytes: Literal[0, 32, 64, 128]

    def model_post_init(self, _: Any) -> None:
        """Refuse an unknown dtype and strides that do not match the shape."""
        dtype_bits(self.dtype)
        if self.strides and len(self.strides) != len(self.shape):
            raise ValueError(f"buffer {self.name!r} has {len(self.shape)} dimensions and {len(self.strides)} strides")


class MetaHeader(BaseModel):
    """What the frontend knows of the kernel besides its graph; further keys are kept as they are."""

    model_config = ConfigDict(strict=True, extra="allow")

    flops: Annotated[int, Field(ge=0, lt=2**62)] = 0
    seconds: dict[str, float] = {}
    warnings: list[str] = []
    tilelang: str = ""
    pass_configs: dict[str, Any] = {}


class Header(_Strict):
    """The whole header."""

    format: Literal["gtsim tile graph"]
    schema_: Annotated[int, Field(alias="schema")]
    name: str
    launch: LaunchHeader
    buffers: list[BufferHeader]
    type_names: list[str]
    strings: list[str]
    attrs: list[dict[str, Scalar | list[Scalar]]]
    templates: Annotated[list[str], Field(min_length=1)]
    meta: MetaHeader
