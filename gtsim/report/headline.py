"""What was predicted, the figures, and the bound."""

from __future__ import annotations

from rich.console import Group, RenderableType
from rich.text import Text

from .facts import Facts
from .style import count, percent, resource_name


def section(facts: Facts) -> RenderableType:
    """Kernel, GPU and clock; cycles, time and throughput; what bounds it."""
    r = facts.result
    title = Text.assemble((r.kernel, "bold"), " on ", (r.hardware, "bold"), f" ({r.arch}) at {r.clock_mhz:g} MHz")
    if r.fidelity != "bulk":
        title.append(f", {r.fidelity} fidelity")
    if r.skipped:
        ctas = f"{count(int(r.skipped['ctas']))} of {count(r.ctas)} CTAs"
        left_out = f"{ctas} left out as repeats, cycles within {100 * r.skipped['bound']:.2f} %"
        title.append(f" ({left_out})" if r.skipped["ctas"] else " (nothing repeats)")
    changed = r.parameters.get("overrides") or {}
    if changed:
        title.append(", with " + ", ".join(f"{k}={v}" for k, v in changed.items()), style="yellow")
    figures = [f"{count(r.cycles)} cycles", f"{r.time_us:,.1f} us"]
    if r.flops:
        figures.append(f"{r.tflops:,.1f} TFLOP/s")
        peak = facts.tensor_peak_tflops
        if peak:
            figures.append(f"{percent(r.tflops / peak)} of the {facts.tensor_dtypes[0]} tensor peak ({peak:,.0f} TFLOP/s)")
    else:
        figures.append(f"{facts.gbs(r.traffic.dram_read_bytes + r.traffic.dram_written_bytes):,.0f} GB/s DRAM")
    body = Text("   ".join(figures), style="bold green")
    bound = Text.assemble(("Bound by ", "bold"), bound_sentence(facts))
    return Group(title, body, bound)


def bound_sentence(facts: Facts) -> str:
    """The backend's verdict in words."""
    r = facts.result
    busiest = sorted(r.utilization, key=facts.utilization, reverse=True)
    text = r.bound_by
    if text.split(" ", 1)[0] in r.utilization:
        name = text.split(" ", 1)[0]
        rest = [n for n in busiest if n != name]
        then = f"; next is {resource_name(rest[0])}, {percent(facts.utilization(rest[0]))}" if rest else ""
        return f"{resource_name(name)}: {percent(facts.utilization(name))} busy{then}"
    role = next((role for role in r.roles if text.startswith(f"latency of {role.role}:")), None)
    if role is None:
        return text
    parts = sorted({"working": role.working, **role.waits}.items(), key=lambda kv: -kv[1])[:3]
    spent = ", ".join(f"{facts.describe(role, k)} {percent(v)}" for k, v in parts)
    most = f"{resource_name(busiest[0])} only {percent(facts.utilization(busiest[0]))} busy"
    return f"latency, not a resource ({most}). {role.role}: {spent}"
