"""Conversions by class, as the compiled code has them (validation/conversions.py prints it)."""

import pytest
from gtsim.frontend.tilelang.conversions import conversion


@pytest.mark.parametrize(("source", "target", "expected"), [
    ("float32", "float16", {"cvt": 0.5}),  # F2FP takes two
    ("float16", "float32", {"cvt": 1.0}),  # HADD2.F32
    ("bfloat16", "float32", {"alu": 0.5, "fma": 0.5}),  # a shift, as SHF or IMAD
    ("float16", "bfloat16", {"cvt": 1.5}),
    ("bfloat16", "float16", {"alu": 0.5, "fma": 0.5, "cvt": 0.5}),
    ("int32", "float32", {"alu": 1.0}),  # I2FP
    ("uint8", "float32", {"alu": 1.0}),
    ("int8", "float32", {"sfu": 1.0}),  # I2F
    ("int32", "float16", {"sfu": 1.0}),
    ("int64", "float16", {"sfu": 1.0, "cvt": 0.5}),
    ("float32", "int8", {"sfu": 1.0}),  # F2I
    ("float16", "int32", {"cvt": 1.0, "sfu": 1.0}),
    ("float64", "float32", {"sfu": 1.0}),  # F2F
    ("float64", "float16", {"sfu": 1.0, "cvt": 0.5}),
    ("float16", "float16", {}),
    ("int32", "int8", {"int": 1.0}),
])
def test_a_conversion_counts_as_it_is_compiled(source, target, expected):
    assert conversion(source, target) == expected


def test_double_precision_has_pipes_of_its_own(view):
    T = pytest.importorskip("tilelang.language")
    from gtsim.frontend import lower

    def scaled(dtype):
        @T.prim_func
        def kernel(a: T.Tensor((128,), dtype), b: T.Tensor((128,), dtype)):
            with T.Kernel(1, threads=128):
                for i in T.Parallel(128):
                    b[i] = a[i] * a[i] + a[i]

        return kernel

    mixes = {d: view(lower(scaled(d), arch="sm_90a")).of("elementwise")[0].attrs for d in ("float32", "float64")}
    assert mixes["float64"]["fp64"] == mixes["float32"]["fma"] == 1.0
    assert "fma" not in mixes["float64"]
