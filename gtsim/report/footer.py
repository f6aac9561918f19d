"""How the prediction was made: sizes, host time, versions."""

from __future__ import annotations

from rich.console import RenderableType
from rich.text import Text

from .facts import Facts
from .style import count, nbytes, plural, titled

_ORDER = ("lowering", "graph", "compile", "simulation")


def section(facts: Facts) -> RenderableType:
    """Graph sizes, host seconds, versions and hashes."""
    r = facts.result
    g = r.graph
    size = (f"graph: {plural(g['templates'], 'template')}, {count(g['nodes'])} nodes, {count(g['edges'])} edges, "
            f"{nbytes(g['bytes'])}; {count(g['instances'])} instances, {nbytes(g['instance_bytes'])}")
    named = {**{k: r.seconds[k] for k in _ORDER if k in r.seconds}, **r.seconds}
    host = "host: " + ", ".join(f"{k} {v:.3f} s" for k, v in named.items()) + f"; {count(r.events)} events"
    versions = ", ".join(f"{k} {v}" for k, v in r.versions.items() if v and k in ("gtsim", "tilelang"))
    hashes = ", ".join(f"{k} {v}" for k, v in r.hashes.items())
    lines = [size, host, f"{versions}; {hashes}"]
    meta = facts.graph.meta
    if meta.get("detail") == "exact":
        lines.append(f"facts: by the compiler; {meta.get('facts_compared', 0)} compared with the rules, "
                     f"{len(meta.get('facts_differ', ()))} differ; registers by {meta.get('registers_from', 'rule')}")
    return titled("Run", Text("\n".join(lines), style="dim"))
