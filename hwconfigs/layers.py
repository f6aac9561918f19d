"""Layers of settings: files and overrides, each laid over those before it, remembering where every value came from."""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from .errors import HardwareError


class Source(NamedTuple):
    """Where a value came from: the file (or "override") and the comment behind it there."""

    label: str
    comment: str


@dataclass(frozen=True)
class Layer:
    """Settings as nested dicts, and the source of each value by dotted path."""

    label: str
    data: dict[str, Any]
    sources: dict[str, Source] = field(default_factory=dict)

    @classmethod
    def of(cls, label: str, data: dict[str, Any], comments: Mapping[str, str], default: str = "") -> "Layer":
        """A layer whose values all come from `label`; those without a comment get the `default` one."""
        sources = {path: Source(label, _comment(path, comments, default)) for path, _ in flatten(data)}
        return cls(label, data, sources)


def stack(layers: Iterable[Layer]) -> Layer:
    """All layers as one, later ones on top."""
    whole = Layer("", {})
    for layer in layers:
        whole = Layer(layer.label, merge(whole.data, layer.data), {**whole.sources, **layer.sources})
    return whole


def merge(below: Mapping[str, Any], above: Mapping[str, Any]) -> dict[str, Any]:
    """Two nested dicts as one: tables are merged key by key, and any other value of `above` replaces that `below`."""
    merged = dict(below)
    for key, value in above.items():
        old = merged.get(key)
        if isinstance(value, Mapping):
            merged[key] = merge(old if isinstance(old, Mapping) else {}, value)
        else:
            merged[key] = value
    return merged


def nest(overrides: Mapping[str, Any], label: str) -> dict[str, Any]:
    """{"l2.line_bytes": 128} as {"l2": {"line_bytes": 128}}, in tables inside it too; later entries win.

    Raises HardwareError, naming `label`, for a key that is no dotted path.
    """
    nested: dict[str, Any] = {}
    for path, value in overrides.items():
        if not all(path.split(".")):
            raise HardwareError(f"{label}: '{path}': not a dotted path such as l2.line_bytes")
        inner = nest(value, label) if isinstance(value, Mapping) else value
        for part in reversed(path.split(".")):
            inner = {part: inner}
        nested = merge(nested, inner)
    return nested


def flatten(data: Mapping[str, Any], prefix: str = "") -> Iterator[tuple[str, Any]]:
    """(dotted path, value) of every value in nested dicts, in order; an empty table counts as a value."""
    for key, value in data.items():
        if isinstance(value, Mapping) and value:
            yield from flatten(value, f"{prefix}{key}.")
        else:
            yield f"{prefix}{key}", value


def _comment(path: str, comments: Mapping[str, str], default: str) -> str:
    """The comment behind a path, or behind the one-line table `{ ... }` that holds it."""
    while path:
        if path in comments:
            return comments[path]
        path = path.rpartition(".")[0]
    return default
