#!/usr/bin/env python3
"""kernels.py [--write] [80 90 ...]: compiles all kernels for each architecture and looks at what they became.

  none is forgotten   every kernel of the backend's headers is among them
  exact               exact_kernels.cu holds one exact operation after another (ptx_lint.py)
  registers           none takes more registers or spills more than registers.txt says; --write writes that file anew

Kernels that are not exact belong into another *_kernels.cu here: they are not held to the exact list.
"""
import pathlib
import sys
import tempfile

import names
import nvcc
import ptx_lint
import registers


def compiled(unit, architecture, folder):
    """The PTX of a file, and what ptxas says of that."""
    ptx = pathlib.Path(folder) / f"{unit.stem}.ptx"
    nvcc.run(*nvcc.flags(), f"-arch=compute_{architecture}", "-ptx", unit, "-o", ptx)
    report = nvcc.run(*nvcc.flags(), f"-arch=sm_{architecture}", "-Xptxas=-v", "-cubin", ptx, "-o", f"{ptx}.cubin")
    return ptx.read_text(), registers.parse(report)


def look_at(architecture):
    """(faults that no table can excuse, {kernel: Usage})"""
    faults, kernels = [], {}
    with tempfile.TemporaryDirectory() as folder:
        for unit in sorted(nvcc.HERE.glob("*_kernels.cu")):
            ptx, usage = compiled(unit, architecture, folder)
            kernels.update(usage)
            if unit.name == "exact_kernels.cu":
                faults += ptx_lint.lint(ptx, names.readable)
    kernels = {kernel: usage for kernel, usage in kernels.items() if ptx_lint.CANARY not in kernel}
    present = {kernel.split("<")[0] for kernel in kernels}
    faults += [f"{name} ({place}): no *_kernels.cu here compiles it"
               for name, place in names.defined().items() if name not in present]
    return faults, kernels


def main(arguments):
    nvcc.need()
    writing = "--write" in arguments
    asked = [a for a in arguments if a != "--write"] or list(nvcc.ARCHITECTURES)
    if not set(asked) <= set(nvcc.ARCHITECTURES) or (writing and len(asked) != len(nvcc.ARCHITECTURES)):
        sys.exit(__doc__)
    version, table = registers.read()
    measured, failed = {}, False
    for architecture in nvcc.known(asked):
        faults, kernels = look_at(architecture)
        name = f"sm_{architecture}"
        measured[name] = kernels
        if not writing and version == nvcc.version():
            faults += registers.compare(table.get(name, {}), kernels)
        elif not writing:
            print(f"skipped: registers of {name}: the table is of nvcc {version}, this is {nvcc.version()}")
        for fault in faults:
            print(f"FAILED: {name}: {fault}")
        failed = failed or bool(faults)
        spilling = sum(usage.spilled > 0 for usage in kernels.values())
        print(f"{name}: {len(kernels)} kernels, {spilling} of them spill")
    if failed:
        sys.exit("Where more registers are meant: tests/cuda_legs/kernels.py --write")
    if writing:
        registers.write(nvcc.version(), measured)


main(sys.argv[1:])
