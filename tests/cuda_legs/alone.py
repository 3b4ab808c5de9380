#!/usr/bin/env python3
"""alone.py [header ...]: each header of the CUDA backend, as users spell it, compiles alone and twice, for all
architectures, without a warning. Without arguments: all of them."""
import pathlib
import sys
import tempfile

import nvcc

INCLUDE = nvcc.BACKEND / "include"


def headers():
    return sorted(str(p.relative_to(INCLUDE)) for p in INCLUDE.rglob("*") if p.suffix in (".hpp", ".cuh"))


def compile_alone(header, architectures):
    with tempfile.TemporaryDirectory() as folder:
        source = pathlib.Path(folder) / "alone.cu"
        source.write_text(f"#include <{header}>\n#include <{header}>\n")
        targets = [f"-gencode=arch=compute_{a},code=sm_{a}" for a in architectures]
        # What the kernels become is checked by kernels.py; here their syntax is enough, and a third of the time.
        nvcc.run(*nvcc.flags(), *targets, "-fdevice-syntax-only", "-c", source, "-o", pathlib.Path(folder) / "alone.o")


nvcc.need()
chosen = sys.argv[1:] or headers()
if not chosen:
    sys.exit("FAILED: no headers were found")
known = nvcc.known(nvcc.ARCHITECTURES)
for chosen_header in chosen:
    compile_alone(chosen_header, known)
    print(f"{chosen_header}: alone and twice, for {', '.join('sm_' + a for a in known)}")
