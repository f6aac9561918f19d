"""HardwareError, and how a wrong key or value is described to the user."""

import re
from collections.abc import Collection, Iterable
from difflib import get_close_matches
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pydantic_core import ErrorDetails


class HardwareError(ValueError):
    """A hardware file or an override that cannot be used; the message names the file, the key and what is wrong."""


def nearest(word: str, words: Iterable[str], cutoff: float) -> str | None:
    """The word most like `word`, case ignored; None if none is at least `cutoff` (0 to 1) like it."""
    folded = {candidate.casefold(): candidate for candidate in words}
    matches = get_close_matches(word.casefold(), folded, n=1, cutoff=cutoff)
    return folded[matches[0]] if matches else None


def nearest_key(path: str, valid: Collection[str]) -> str | None:
    """The valid dotted path most like `path`: in the same table if one is, else of the same last name, else any."""
    table, _, name = path.rpartition(".")
    siblings = {p.rpartition(".")[2]: p for p in valid if p.rpartition(".")[0] == table}
    by_name = {p.rpartition(".")[2]: p for p in valid}
    if (match := nearest(name, siblings, cutoff=0.4)) is not None:
        return siblings[match]
    if (match := nearest(name, by_name, cutoff=0.6)) is not None:
        return by_name[match]
    return nearest(path, valid, cutoff=0.0)


def unknown_key(path: str, valid: Collection[str]) -> str:
    """What to say of a path that is not among the valid ones."""
    return f"unknown key; the nearest valid key is '{nearest_key(path, valid)}'"


def describe(error: "ErrorDetails", valid: Collection[str]) -> tuple[str, str]:
    """A pydantic error as (dotted path, what is wrong), one line; `valid` are the dotted paths that exist."""
    path = ".".join(str(part) for part in error["loc"] if part != "[key]")
    kind = error["type"]
    if kind == "extra_forbidden":
        return path, unknown_key(path, valid)
    if kind == "missing":
        return path, "missing" + _similar_resource(path, valid)
    if kind == "value_error":
        return path, str(error["ctx"]["error"])
    if kind in ("model_type", "dict_type", "mapping_type"):
        return path, f"must be a table, got {error['input']!r}"
    return path, f"{re.sub(r'^(Input|String|Dictionary) should', 'must', error['msg'])}, got {error['input']!r}"


def _similar_resource(path: str, valid: Collection[str]) -> str:
    """A hint for a misspelt resource name, which reads as a new and incomplete resource."""
    table, _, rest = path.partition(".")
    name = rest.partition(".")[0]
    if table != "resources" or not name:
        return ""
    others = {p.split(".")[1] for p in valid if p.startswith("resources.")} - {name}
    match = nearest(name, others, cutoff=0.7)
    return " in a new resource" + (f"; did you mean 'resources.{match}'?" if match else "")
