"""Finding, loading, overriding and comparing hardware files."""

import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, TypeAlias

from pydantic import ValidationError

from .errors import HardwareError, describe, nearest
from .layers import Layer, nest, stack
from .schema import Hardware, key_paths
from .toml_file import parse_toml, read_toml

OverrideFile: TypeAlias = "str | Path | Mapping[str, Any]"

_SHIPPED = Path(__file__).parent
_SET = "override"


def list_hardware() -> list[str]:
    """Names of the hardware files that come with gtsim, sorted."""
    return sorted(path.stem for path in _SHIPPED.glob("*.toml"))


def load_hardware(
    name_or_path: "str | Path | Hardware",
    overrides: Mapping[str, Any] | None = None,
    override_files: Sequence[OverrideFile] = (),
) -> Hardware:
    """The hardware of a shipped file (by name), of a TOML file (path ending in .toml), or one already loaded, changed.

    `override_files` (paths, or what `load_override_file` returned) are laid over it in order, then `overrides`:
    dotted paths to values, {"l2.latency_near_cycles": 200}, or to whole tables, {"resources.my_unit": {...}}.

    Raises HardwareError, one line a problem, naming the file or "override", the key and what is wrong.
    """
    if isinstance(name_or_path, Hardware):
        files = [Layer(name_or_path.name, name_or_path.model_dump(exclude_unset=True), name_or_path._sources)]
    else:
        files = _file_layers(str(name_or_path), Path())
    above = [_override_layer(file) for file in override_files]
    if overrides:
        above.append(Layer.of(_SET, nest(overrides, _SET), {}, default=f"set by {_SET}"))
    whole = stack([*files, *above])
    try:
        hardware = Hardware.model_validate(whole.data)
    except ValidationError as error:
        raise HardwareError("\n".join(_problems(error, [*files, *above], files[-1].label))) from None
    hardware._sources.update(whole.sources)
    return hardware


def load_override_file(path: str | Path) -> dict[str, Any]:
    """The settings of a TOML file that holds only what differs, as nested dicts. Raises HardwareError."""
    return _override_layer(path).data


def parse_override(text: str) -> tuple[str, Any]:
    """("l2.line_bytes", 128) for "l2.line_bytes=128". The value is TOML, or a bare word. Raises HardwareError."""
    path, equals, value = (part.strip() for part in text.partition("="))
    if not equals:
        raise HardwareError(f"--set {text}: must read path=value, such as l2.line_bytes=128")
    if re.fullmatch(r"[A-Za-z_][\w-]*", value) and value not in ("true", "false", "inf", "nan"):
        return path, value
    try:
        parsed = parse_toml(f"value = {value}", "--set")
    except HardwareError:
        raise HardwareError(f"--set {text}: {path}: the value is not valid TOML") from None
    if len(parsed) > 1:
        raise HardwareError(f"--set {text}: {path}: one value is expected")
    return path, parsed["value"]


def diff_hardware(a: Hardware, b: Hardware) -> list[tuple[str, Any, Any]]:
    """(path, value in a, value in b) of every key that differs; None where a key is not set."""
    left, right = a.flat(), b.flat()
    return [(path, left.get(path), right.get(path)) for path in {**left, **right} if left.get(path) != right.get(path)]


def _file_layers(name: str, folder: Path, above: tuple[Path, ...] = ()) -> list[Layer]:
    """The layers of a file's bases, lowest first, then its own; a path in `base` is relative to the file naming it."""
    path, label = _locate(name, folder)
    if path.resolve() in above:
        raise HardwareError(f"{label}: is its own base")
    data, comments = read_toml(path, label)
    base = data.pop("base", None)
    if base is None:
        return [Layer.of(label, data, comments)]
    if not isinstance(base, str):
        raise HardwareError(f"{label}: base: must be a name or a path, got {base!r}")
    data.setdefault("name", path.stem)
    try:
        below = _file_layers(base, path.parent, (*above, path.resolve()))
    except HardwareError as error:
        raise HardwareError(f"{label}: base: {error}") from None
    return [*below, Layer.of(label, data, comments)]


def _locate(name: str, folder: Path) -> tuple[Path, str]:
    """A file's path and what to call it in messages."""
    if name.endswith(".toml"):
        return folder / name, str(folder / name)
    available = list_hardware()
    if name not in available:
        like = nearest(name, available, cutoff=0.4)
        hint = f"; did you mean '{like}'?" if like else "."
        raise HardwareError(
            f"unknown hardware '{name}'{hint} Available: {', '.join(available)}, or the path of a .toml file"
        )
    return _SHIPPED / f"{name}.toml", f"{name}.toml"


def _override_layer(file: OverrideFile) -> Layer:
    if isinstance(file, Mapping):
        return Layer.of("override file", nest(file, "override file"), {}, default="set in an override file")
    label = str(file)
    data, comments = read_toml(Path(file), label)
    if "base" in data:
        raise HardwareError(f"{label}: base: an override file has no base; give the hardware's name when loading it")
    return Layer.of(label, data, comments, default=f"set in {label}")


def _problems(error: ValidationError, layers: Sequence[Layer], main: str) -> list[str]:
    """One line for each error: the layer to blame, the dotted path, and what is wrong."""
    resources = stack(layers).data.get("resources")
    valid = key_paths(resources if isinstance(resources, Mapping) else {})
    lines = []
    for details in error.errors(include_url=False):
        path, what = describe(details, valid)
        lines.append(": ".join(part for part in (_blame(path, layers, details["type"], main), path, what) if part))
    return lines


def _blame(path: str, layers: Sequence[Layer], kind: str, main: str) -> str:
    """The label of the topmost layer that sets a path; for a missing key, of the lowest that opens its table."""
    order = layers if kind == "missing" else layers[::-1]
    while path:
        for layer in order:
            for key, source in layer.sources.items():
                if f"{key}.".startswith(f"{path}."):
                    return source.label
        path = path.rpartition(".")[0]
    return main
