#!/usr/bin/env python3
"""The lint finds every planted fault of planted.cu, and nothing in what is exact."""
import pathlib
import re
import sys
import tempfile

import names
import nvcc
import ptx_lint

EXACT = {"exact_operations", "sum", "quotient", "root", ptx_lint.CANARY}
WITH_EXACT_FLAGS = {
    "fast_exponential": r"ex2\.approx",
    "fast_logarithm": r"lg2\.approx",
    "fast_division": r"div\.approx",
    "reciprocal_root": r"rsqrt\.approx",
    "float_reduction": r"(red|atom)\.\S*f32",
    "float_atomic": r"atom\.\S*f32",
    "toward_zero": r"add\.rz\.f32",
    "saturated": r"cvt\.sat\.f32",
    "half_sum": r"add\S*\.f16",
    "double_sum": r"add\.rn\.f64",
    "unrounded_sum": r"add\.f32",
    "matrix_product": r"mma\..*matrix instruction",
}
# Options that undo the exact ones, and what must be found then.
OPTIONS = {
    (): WITH_EXACT_FLAGS,
    ("-fmad=true",): {ptx_lint.CANARY: r"fma\.rn\.f32", "sum": r"add\.f32"},
    ("-prec-div=false",): {"quotient": r"div\.full\.f32"},
    ("-prec-sqrt=false",): {"root": r"sqrt\.approx\.f32"},
    ("-ftz=true",): {"sum": r"add\.rn\.ftz\.f32", ptx_lint.CANARY: r"mul\.rn\.ftz\.f32"},
    ("-fmad=true", "-use_fast_math"): {ptx_lint.CANARY: r"fma\.rn\.ftz\.f32", "quotient": r"div\.approx\.ftz\.f32"},
}


def lint(options, **more):
    kept = [f for f in nvcc.flags() if f.split("=")[0] not in {o.split("=")[0] for o in options}]
    with tempfile.TemporaryDirectory() as folder:
        ptx = pathlib.Path(folder) / "planted.ptx"
        nvcc.run(*kept, *options, "-arch=compute_80", "-ptx", nvcc.HERE / "planted.cu", "-o", ptx)
        text = ptx.read_text()
    return ptx_lint.lint(text, lambda name: re.sub(r"\(.*", "", names.readable(name)), **more)


def reported(faults, kernel, instruction):
    return any(fault.startswith(kernel + ": ") and re.search(instruction, fault) for fault in faults)


nvcc.need()
failures = []
for options, expected in OPTIONS.items():
    faults = lint(options)
    for kernel, instruction in expected.items():
        if not reported(faults, kernel, instruction):
            failures.append(f"{options}: {kernel}: nothing was reported that matches {instruction}")
    if not options:
        failures += [f"reported, but exact: {fault}" for fault in faults if fault.split(":")[0] in EXACT]
    print(f"{' '.join(options) or 'the exact flags'}: {len(faults)} faults found")
if reported(lint((), f64_kernels={"double_sum"}), "double_sum", "f64"):
    failures.append("double_sum: reported, although f64 is allowed there")
if not ptx_lint.lint("", names.readable):
    failures.append("a file without the canary passes")
sys.exit("\n".join(failures) or 0)
