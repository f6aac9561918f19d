"""The report says what the numbers say, fits its width, and gives advice only with evidence."""

from __future__ import annotations

import io

import pytest

import gtsim
from gtsim.report import Facts, advice, report_text


@pytest.fixture(scope="module")
def prediction(make_gemm) -> gtsim.Prediction:
    return gtsim.simulate(make_gemm())


def hints(graph, **options) -> str:
    return "\n".join(f"{h.advice} [{h.evidence}]" for h in advice(Facts(gtsim.simulate(graph, **options))))


def test_it_names_kernel_gpu_clock_and_figures(prediction) -> None:
    text = report_text(prediction)
    assert "gemm on h100_sxm (sm_90a) at 1755 MHz" in text
    assert f"{prediction.cycles:,} cycles" in text
    assert f"{prediction.tflops:,.1f} TFLOP/s" in text
    assert "Bound by" in text


def test_it_has_every_section(prediction) -> None:
    text = report_text(prediction)
    for title in ("Launch", "Busy resources", "Memory traffic", "Where the time goes", "Operations", "Run"):
        assert f"\n{title}" in text


def test_repr_and_print_are_the_report(prediction, capsys) -> None:
    prediction.report(width=100)
    assert capsys.readouterr().out == report_text(prediction, 100) + "\n"
    assert "Bound by" in repr(prediction)


def test_a_notebook_gets_html(prediction) -> None:
    html = prediction._repr_html_()
    assert html.startswith("<pre") and "Bound by" in html


@pytest.mark.parametrize("width", [72, 80, 120])
def test_no_line_is_wider_than_asked(prediction, width) -> None:
    assert max(map(len, report_text(prediction, width).splitlines())) <= width


def test_it_is_ascii_where_the_terminal_is(prediction) -> None:
    out = io.TextIOWrapper(io.BytesIO(), encoding="ascii")
    prediction.report(file=out)
    out.seek(0)
    assert "####" in out.read()


def test_waits_are_named_by_what_they_wait_for(make_gemm) -> None:
    text = report_text(gtsim.simulate(make_gemm(wait="ready")))
    assert "wait for loads (ready)" in text
    assert "wait for a free stage (empty)" in text


def test_changed_numbers_are_shown(make_gemm) -> None:
    assert "l2.latency_near_cycles=900" in report_text(gtsim.simulate(make_gemm(2, 2), overrides={"l2.latency_near_cycles": 900}))


def test_warnings_of_the_frontend_are_shown(make_gemm) -> None:
    graph = make_gemm(2, 2)
    graph.meta["warnings"].append("gemm falls back to mma.sync")
    assert "gemm falls back to mma.sync" in report_text(gtsim.simulate(graph))


def test_late_loads_ask_for_stages_until_there_are_enough(make_gemm) -> None:
    slow = {"l2.latency_near_cycles": 1500, "l2.latency_far_cycles": 1500}
    assert "more pipeline stages" in hints(make_gemm(8, 8, 32, stages=1), overrides=slow)
    assert "more pipeline stages" not in hints(make_gemm(8, 8, 32, stages=4, tile=(128, 64, 64)),
                                               overrides={"resources.tensor.rate_per_cycle": 64})


def test_a_saturated_path_is_named_instead(make_gemm) -> None:
    text = hints(make_gemm(16, 16, 32), overrides={"resources.l2.rate_per_cycle": 1000})
    assert "larger tiles" in text and "not for want of stages" in text


def test_a_small_grid_and_a_poor_last_wave_are_noticed(make_gemm) -> None:
    assert "smaller than the chip" in hints(make_gemm(4, 4))
    assert "last wave" in hints(make_gemm(12, 12))
    assert "wave" not in hints(make_gemm(12, 11))


def test_control_code_is_noticed_where_there_is_much(make_gemm) -> None:
    assert "Scalar control code" in hints(make_gemm(11, 12, 16, loop_ops=40))
    assert "Scalar control code" not in hints(make_gemm(11, 12, 16))


def test_narrow_stores_are_noticed(make_gemm) -> None:
    assert "copy(acc -> C)" in hints(make_gemm(11, 12, 2))


def test_every_hint_states_its_numbers(make_gemm) -> None:
    found = advice(Facts(gtsim.simulate(make_gemm(12, 12, 4))))
    assert found
    assert all(any(c.isdigit() for c in h.evidence) for h in found)
    assert [h.stake for h in found] == sorted((h.stake for h in found), reverse=True)


def test_what_crosses_the_network_between_sms_is_told() -> None:
    b = gtsim.TileGraphBuilder("pair", grid=(2, 1, 1), cluster=(2, 1, 1), threads=128, arch="sm_90a")
    s, f = (b.buffer(n, (64, 64), "float16", scope=c) for n, c in (("s", "shared"), ("f", "fragment")))
    t = b.template()
    t.node("dsmem_store", range(4), cta=0, reads=[f.tile()], writes=[s.tile(cta=1)])
    b.add_instances(t, [(0, 0, 0)])
    graph = b.build()
    text = report_text(gtsim.simulate(graph, "h200_sxm"), 120)
    assert "between SMs: 8.2 kB and signals in 64 requests, 82 cycles each in the network" in text
    mesh = report_text(gtsim.simulate(graph, "h200_sxm", overrides={"cluster.network": "mesh"}), 120)
    assert "in 64 requests, over 1.0 links, busy" in mesh and "44 cycles each in the network" in mesh
