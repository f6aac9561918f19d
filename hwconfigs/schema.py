"""Hardware: everything gtsim knows about one GPU, validated."""

import hashlib
import json
from collections.abc import Iterator, Mapping
from typing import Any

from pydantic import Field, PrivateAttr, model_validator

from . import tables
from .errors import HardwareError, unknown_key
from .fields import Identifier, Table
from .layers import Source, flatten

REQUIRED_RESOURCES = (
    "issue", "fma", "fp64", "alu", "sfu", "cvt", "shuffle", "tensor", "smem", "lsu", "l2", "l2_write", "l2_to_sm", "sm_to_l2"
)  # fmt: skip

#: Who shares these is part of the engine.
FIXED_SCOPES = {"issue": "subpartition", "l2": "chip", "l2_write": "chip"}


class Hardware(Table):
    """One GPU. Attributes mirror the tables of its TOML file; `load_hardware` makes it. Equal if all keys are equal."""

    name: str = Field(min_length=1, description="what `load_hardware` calls it")
    description: str = Field(description="the product, for people")
    chip: tables.Chip
    sm: tables.Sm
    resources: Mapping[Identifier, tables.Resource] = Field(description="by name; demands take work on these")
    tensor: tables.Tensor
    wgmma: tables.Wgmma
    mma: tables.Mma
    smem: tables.Smem
    tma: tables.Tma
    cp_async: tables.CpAsync
    lsu: tables.Lsu
    l1: tables.L1
    mbarrier: tables.Mbarrier
    sync: tables.Sync
    cluster: tables.Cluster
    control: tables.Control
    l2: tables.L2
    dram: tables.Dram
    launch: tables.Launch

    _sources: dict[str, Source] = PrivateAttr(default_factory=dict)

    @model_validator(mode="after")
    def _has_required_resources(self) -> "Hardware":
        required = (*REQUIRED_RESOURCES, "tma") if self.tma.supported else REQUIRED_RESOURCES
        required = (*required, "sm_to_sm_out", "sm_to_sm_in") if self.cluster.supported else required
        if missing := [name for name in required if name not in self.resources]:
            raise ValueError(f"resources: missing {', '.join(missing)}")
        for name, scope in FIXED_SCOPES.items():
            if self.resources[name].scope != scope:
                raise ValueError(f"resources.{name}.scope is {self.resources[name].scope!r}, and must be {scope!r}")
        if self.dram.channels % (groups := self.l2.slices // self.l2.partitions):
            raise ValueError(f"dram.channels = {self.dram.channels} do not share out over the {groups} slices of a partition "
                             f"(l2.slices = {self.l2.slices}, l2.partitions = {self.l2.partitions}); use a multiple")
        return self

    @property
    def hash(self) -> str:
        """16 hex digits that change with any value, but not with comments, the name or the description."""
        values = {path: value for path, value in self.flat().items() if path not in ("name", "description")}
        text = json.dumps(values, sort_keys=True, separators=(",", ":"))
        return hashlib.sha256(text.encode()).hexdigest()[:16]

    def flat(self) -> dict[str, Any]:
        """Every key that is set, by dotted path, in the order of the schema."""
        return dict(flatten(self.model_dump(exclude_unset=True)))

    def source_comment(self, path: str) -> str:
        """The comment behind a key in its TOML file, or "set by override"; "" if none. Raises HardwareError if unknown."""
        if path in self._sources:
            return self._sources[path].comment
        keys = self.flat()
        if not any(f"{key}.".startswith(f"{path}.") for key in keys):
            raise HardwareError(f"{self.name}: {path}: {unknown_key(path, keys)}")
        return ""

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Hardware) and self.flat() == other.flat()

    def __hash__(self) -> int:
        return hash(self.hash)


def key_paths(resources: Mapping[str, Any]) -> list[str]:
    """Every dotted path that is valid for a GPU with these resources, tables included."""
    return [*_paths(Hardware), *(path for name in resources for path in _paths(tables.Resource, f"resources.{name}"))]


def _paths(table: type[Table], prefix: str = "") -> Iterator[str]:
    if prefix:
        yield prefix
    for name, field in table.model_fields.items():
        path = f"{prefix}.{name}" if prefix else name
        if isinstance(field.annotation, type) and issubclass(field.annotation, Table):
            yield from _paths(field.annotation, path)
        else:
            yield path
