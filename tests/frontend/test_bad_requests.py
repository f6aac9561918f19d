"""Wrong arguments, pass configs and metadata: one clear error that names the thing and the fix."""

import numpy as np
import pytest
import tilelang.language as T
import tvm
from gtsim.frontend.errors import RequestError

import gtsim
from gtsim.cli import run


def rows(N=1024, width=128):
    @T.prim_func
    def take(
        X: T.Tensor((N, width), "float32"),
        order: T.Tensor((N,), "uint8"),
        flags: T.Tensor((N,), "int32"),
        Y: T.Tensor((N, width), "float32"),
    ):
        with T.Kernel(N // 128, threads=128) as bx:
            for i in T.serial(4):
                if flags[bx] > i:
                    for j in T.Parallel(width):
                        Y[order[bx * 4 + i], j] = X[bx, j]

    return take


GOOD = {"order": np.arange(1024) % 256, "flags": np.ones(1024, dtype=np.int32)}


def test_the_right_metadata_pass() -> None:
    assert gtsim.lower(rows, metadata=GOOD).total_nodes > 0


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"flag": GOOD["flags"]}, "metadata names 'flag', and the kernel has no such tensor. Did you mean flags"),
        ({"X": np.zeros((1024, 128))}, "metadata 'X' is for a tensor of float32, and only integers steer control flow"),
        ({"flags": np.ones(1024)}, "metadata 'flags' has type float64, the kernel reads int32"),
        ({"flags": np.ones((1024, 1), dtype=int)}, r"metadata 'flags' has shape \[1024, 1\], the kernel needs \[1024\]"),
        ({"flags": [[1], [2, 3]]}, "metadata 'flags' (is no array|has type object)"),
        ({"flags": None}, "metadata 'flags' has type object"),
        ({"flags": "many"}, "metadata 'flags' has type <U4"),
        ({"flags": np.full(1024, 2**31)}, "metadata 'flags' holds 2147483648, which is no int32"),
        ({"order": np.full(1024, -1)}, "metadata 'order' holds -1, which is no uint8"),
        ({"order": np.full(1024, 256)}, "metadata 'order' holds 256, which is no uint8"),
    ],
)
def test_metadata_that_does_not_match(change, words) -> None:
    with pytest.raises(RequestError, match=words) as caught:
        gtsim.lower(rows, metadata={**GOOD, **change})
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize(
    ("configs", "message"),
    [
        ({"tl.disable_tma_lowr": True}, "TileLang has no pass config 'tl.disable_tma_lowr'. Did you mean tl.disable_tma_lower?"),
        ({"disable_tma_lower": True}, "TileLang has no pass config 'disable_tma_lower'. Did you mean tl.disable_tma_lower?"),
        (
            {"tl.disable_tma_lower": "banana"},
            "the pass config tl.disable_tma_lower is 'banana', and must be true, false or an integer",
        ),
    ],
)
def test_pass_configs_that_do_not_exist(configs, message) -> None:
    with pytest.raises(RequestError) as caught:
        gtsim.lower(rows, metadata=GOOD, pass_configs=configs)
    assert str(caught.value) == message


def test_a_name_like_no_other_lists_them() -> None:
    with pytest.raises(RequestError, match=r"no pass config 'xyzzy'\. It has .*tl\.disable_tma_lower"):
        gtsim.lower(rows, metadata=GOOD, pass_configs={"xyzzy": 1})


def test_on_the_command_line_it_is_usage(tmp_path, capfd) -> None:
    file = tmp_path / "kernel.py"
    file.write_text(
        "import tilelang.language as T\ndef copy(N=1024, threads=128):\n    @T.prim_func\n"
        "    def c(X: T.Tensor((N,), 'float32'), Y: T.Tensor((N,), 'float32')):\n"
        "        with T.Kernel(N // 128, threads=threads) as bx:\n            for i in T.Parallel(128):\n"
        "                Y[bx * 128 + i] = X[bx * 128 + i]\n    return c\n"
    )
    assert run(["predict", str(file), "--pass-config", "tl.disable_tma=true"]) == 2
    out, err = capfd.readouterr()
    assert out == "" and err.count("\n") == 1
    assert err.startswith("error: TileLang has no pass config 'tl.disable_tma'. Did you mean tl.disable_")
    for argument, words in (
        ("threads=0", "threads is 0, and its default 128 is a positive integer."),
        ("N=1.5", "N is 1.5, and its default 1024 is a positive integer."),
        ("N=abc", "N is 'abc', and its default 1024 is a positive integer."),
        ("N=0", "the grid (0, 1, 1) is empty. Check the problem size."),
        ("N=-128", "the grid (-1, 1, 1) is negative. A size is negative, or does not fit 32 bits."),
        ("N=1000000000000", "has more than 16 million blocks. Use a smaller problem."),
    ):
        assert run(["predict", str(file), "--arg", argument]) == 1, argument
        out, err = capfd.readouterr()
        assert out == "" and err.startswith("error: ") and err.endswith(words + "\n") and err.count("\n") == 1, (argument, err)


def test_what_tilelang_printed_goes_along(capfd) -> None:
    def broken(threads: int = 128):
        return rows(1024, width=threads // 0)

    with pytest.raises(gtsim.FrontendError) as caught:
        gtsim.lower(broken)
    assert caught.value.printed == ""

    def noisy():
        import os

        os.write(2, b"from C++\n")
        raise ValueError("no")

    with pytest.raises(gtsim.FrontendError) as caught:
        gtsim.lower(noisy)
    assert caught.value.printed == "from C++\n" and capfd.readouterr().err == ""


def test_what_is_printed_on_the_way_to_success_is_shown(capfd) -> None:
    def chatty():
        import os

        os.write(2, b"from C++\n")
        return rows()

    gtsim.lower(chatty, metadata=GOOD)
    assert "from C++\n" in capfd.readouterr().err
    with pytest.raises(KeyboardInterrupt):
        gtsim.lower(interrupted)
    assert capfd.readouterr().err == "half way\n"


def interrupted():
    import os

    os.write(2, b"half way\n")
    raise KeyboardInterrupt


def test_metadata_that_leads_out_of_a_tensor_is_a_warning() -> None:
    """Y has rows 0 to 63; blocks 5 and 6 are sent to 64 and to -3."""

    def small(N=1024):
        @T.prim_func
        def take(order: T.Tensor((N,), "int32"), Y: T.Tensor((64, 128), "float32")):
            with T.Kernel(8, threads=128) as bx:
                f = T.alloc_fragment((1, 128), "float32")
                T.clear(f)
                T.copy(f, Y[order[bx], 0])

        return take

    far = np.arange(1024, dtype=np.int32)
    assert gtsim.lower(small, metadata={"order": far}).warnings == ()
    far[5:7] = 64, -3
    (text,) = gtsim.lower(small, metadata={"order": far}).warnings
    assert text == (
        "block (5, 0, 0) uses Y[64, 0] at copy(f -> Y), outside of its shape [64, 128]: nothing moves there (2 such blocks). Is "
        "the metadata right?"
    )


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (dict(args="abc"), "args is str 'abc'"),
        (dict(args=5), "args is int 5"),
        (dict(kwargs=[1, 2]), "kwargs is list"),
        (dict(kwargs={1: 2}), "kwargs is dict {1: 2}"),
        (dict(symbols=[1]), "symbols is list"),
        (dict(symbols={"m": 1.5}), "m is 1.5, and must be an integer"),
        (dict(metadata=[1]), "metadata is list"),
        (dict(pass_configs="x"), "pass_configs is str 'x'"),
        (dict(on_unknown="maybe"), "unknown on_unknown 'maybe'"),
    ],
)
def test_arguments_of_the_wrong_kind(arguments, words) -> None:
    for ask in (gtsim.lower, gtsim.check):
        with pytest.raises(gtsim.UsageError, match=words):
            ask(rows, **arguments)


def test_a_factory_that_leaves() -> None:
    def leave():
        raise SystemExit(3)

    with pytest.raises(gtsim.FrontendError, match="leave raised SystemExit: 3"):
        gtsim.lower(leave)


def no_kernel():
    @T.prim_func
    def nothing(X: T.Tensor((128,), "float32")):
        T.evaluate(0)

    return nothing


def unknown():
    @T.prim_func
    def odd(X: T.Tensor((1024,), "float32"), Y: T.Tensor((1024,), "float32")):
        with T.Kernel(8, threads=128) as bx:
            s = T.alloc_shared((128,), "float32")
            T.copy(X[bx * 128], s)
            T.evaluate(T.call_intrin("handle", tvm.ir.Op.get("tl.increase_descriptor_offset"), 3, 4))
            T.copy(s, Y[bx * 128])

    return odd


def test_a_program_without_a_kernel() -> None:
    for ask in (gtsim.lower, gtsim.check):
        with pytest.raises(gtsim.FrontendError, match="nothing: it launches no kernel. Put its work under"):
            ask(no_kernel)


def test_a_statement_that_is_not_known_names_itself_and_the_way_on() -> None:
    with pytest.raises(gtsim.frontend.UnknownStatement) as caught:
        gtsim.lower(unknown)
    assert str(caught.value).startswith("T.increase_descriptor_offset(3, 4): tl.increase_descriptor_offset is not supported.")
    assert str(caught.value).endswith(' on_unknown="warn" goes on without it.')
    graph = gtsim.lower(unknown, on_unknown="warn")
    (opaque,) = (n for n in graph.nodes_of(graph.templates[0]) if n.type == "opaque")
    assert opaque.attrs["text"] == "T.increase_descriptor_offset(3, 4)"
    assert graph.warnings == ("not interpreted, costs nothing: T.increase_descriptor_offset(3, 4)",)
    p = gtsim.simulate(graph)
    (row,) = (o for o in p.result.operations if o.type == "opaque")
    assert (row.service_cycles, row.latency_cycles) == (0, 0) and "not interpreted, costs nothing" in " ".join(repr(p).split())
