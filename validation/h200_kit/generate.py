#!/usr/bin/env python3
"""Write the CUDA source of each kernel in cases.toml, a program by itself, as TileLang generates it here. Needs no GPU, no nvcc.

    python validation/h200_kit/generate.py FOLDER [CASE ...]

TileLang's own wrapper makes the tensor maps (through the driver's API) and launches; this script adds a table of the arguments
and `main`. FOLDER/includes.txt lists the folders of headers that the sources want: those of the installed TileLang.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from gtsim.errors import USER_ERRORS, UsageError
from gtsim.measure.kit_cases import Case, load_cases

ARCH = "sm_90a"
CASES = Path(__file__).resolve().parent / "cases.toml"
_CALL = re.compile(r'extern "C" TL_EXPORT int call\((.*?),\s*cudaStream_t')


def main() -> None:
    """Generate all cases, or those named."""
    if len(sys.argv) < 2:
        sys.exit("usage: generate.py FOLDER [CASE ...]")
    folder = Path(sys.argv[1])
    folder.mkdir(parents=True, exist_ok=True)
    try:
        cases = load_cases(CASES)
        wanted = sys.argv[2:] or list(cases)
        if unknown := [name for name in wanted if name not in cases]:
            raise UsageError(f"there is no case {unknown[0]}; cases.toml has {', '.join(cases)}")
        for name in wanted:
            (folder / f"{name}.cu").write_text(source_of(cases[name]), encoding="utf-8")
            print(f"{folder / name}.cu", flush=True)
    except USER_ERRORS as error:
        sys.exit(f"error: {error}")
    (folder / "includes.txt").write_text("".join(f"{path}\n" for path in includes()), encoding="utf-8")


def includes() -> list[str]:
    """Folders of the headers that generated source includes."""
    from tilelang.env import CUTLASS_INCLUDE_DIR, TILELANG_TEMPLATE_PATH

    return [str(CUTLASS_INCLUDE_DIR), str(TILELANG_TEMPLATE_PATH)]


def source_of(case: Case) -> str:
    """The program of one case. Raises FrontendError and UsageError."""
    import tilelang
    import tvm
    from gtsim.frontend import capture
    from gtsim.frontend.tilelang.capture import make_target
    from gtsim.frontend.tilelang.quiet import held_back
    from gtsim.frontend.tilelang.resolve import resolve
    from tilelang.jit.adapter.wrapper import TLCUDASourceWrapper
    from tilelang.transform.pass_config import normalize_pass_configs

    from gtsim.measure.inputs import declared

    name, kernel, metadata = case.load()
    prim_func, configs, _ = resolve(kernel, (), case.args, ARCH, None)
    if configs:
        raise UsageError(f"{case.case}: pass configs can change how nvcc is called, which this kit does not follow: {configs}")
    arguments = declared(capture(prim_func, ARCH, configs), {}, metadata)
    if any(a.shape is None for a in arguments):
        raise UsageError(f"{case.case}: a kernel of the kit takes tensors only")
    target = make_target(ARCH)
    with held_back(), target, tvm.transform.PassContext(opt_level=3, config=normalize_pass_configs(configs) or {}):
        made = tilelang.lower(prim_func, target=target, enable_host_codegen=False, enable_device_compile=False)
        module = tvm.IRModule({str(prim_func.attrs["global_symbol"]): prim_func})
        code = str(TLCUDASourceWrapper(module, made.kernel_source, target, made.device_mod, made.host_mod, configs).lib_code)
    found = _CALL.search(code)
    if found is None:
        raise UsageError(f"{case.case}: TileLang {tilelang.__version__} generates no function `call`")
    types = [part.strip().rpartition(" ")[0] for part in found[1].split(",")]
    if len(types) != len(arguments):
        raise UsageError(f"{case.case}: `call` takes {len(types)} arguments, and the kernel declares {len(arguments)}")
    kernels = len(made.device_mod.functions)
    return code + _program(case, name, kernel, arguments, types, kernels, str(tilelang.__version__))


def _program(case: Case, name: str, kernel: Any, arguments: list[Any], types: list[str], kernels: int, version: str) -> str:
    """Argument table and `main`."""
    import gtsim
    from gtsim.measure.row import argument_columns
    from gtsim.measure.run import factory_values

    columns: Mapping[str, object] = {
        "op": name, "case": case.case, "dtype": arguments[0].dtype, **argument_columns(factory_values(kernel, case.args)),
        "shape": "{" + ",".join(f"{a.name}:[{','.join(map(str, a.shape))}]" for a in arguments) + "}",
    }  # fmt: skip
    rows = ",\n    ".join(f"{{{_text(k)}, {_text(v)}}}" for k, v in columns.items())
    tensors = ",\n    ".join(_argument(a) for a in arguments)
    passed = ", ".join(f"static_cast<{t.replace(' __restrict__', '')}>(pointers[{i}])" for i, t in enumerate(types))
    source = f"h200_kit, gtsim {gtsim.__version__}, tilelang {version}"
    return f"""
#include "kernel.hpp"

static int call_all(void* const* pointers) {{ return call({passed}); }}

int main() {{
  kit::Kernel kernel;
  kernel.columns = {{
    {rows}}};
  kernel.arguments = {{
    {tensors}}};
  kernel.kernels = {kernels};
  kernel.source = {_text(source)};
  kernel.init = init;
  kernel.call = call_all;
  kernel.last_error = get_last_error;
  return kit::run_kernel(kernel);
}}
"""


def _argument(argument: Any) -> str:
    elements = 1
    for extent in argument.shape:
        elements *= extent
    given = ""
    if argument.fill == "given":
        if argument.dtype != "int32":
            raise UsageError(f"{argument.name}: metadata of the kit are int32, not {argument.dtype}")
        given = ", ".join(str(int(v)) for v in argument.value.reshape(-1))
    return f"{{{_text(argument.name)}, {_text(argument.dtype)}, {elements}u, {argument.nbytes}u, {{{given}}}}}"


def _text(value: object) -> str:
    plain = str(value).replace("\\", "\\\\").replace('"', '\\"')
    return f'"{plain}"'


if __name__ == "__main__":
    main()
