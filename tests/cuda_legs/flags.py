#!/usr/bin/env python3
"""The option that forbids contraction stands in nvcc_flags.txt, once, and no file of the project undoes exactness."""
import os
import re
import sys

import nvcc

FORBIDS = re.compile(r"-fmad[= ]false")
UNDOES = re.compile(r"-fmad[= ]true|-use_fast_math|-ftz[= ]true|-prec-(div|sqrt)[= ]false")
LIST = nvcc.BACKEND / "nvcc_flags.txt"
PLANTED = nvcc.HERE / "lint_finds_faults.py"
BUILD_FILES = (".txt", ".cmake", ".json", ".py", ".sh", ".in", ".cu", ".cuh", ".hpp", ".cpp")


def build_files():
    for folder, inside, files in os.walk(nvcc.SOURCE):
        inside[:] = [name for name in inside if name not in (".git", "build", "golden", "models")]
        for name in files:
            if name.endswith(BUILD_FILES) or name == "run":
                yield nvcc.pathlib.Path(folder) / name


faults = []
for path in build_files():
    if path in (PLANTED, nvcc.pathlib.Path(__file__).resolve()):
        continue
    text = path.read_text(errors="replace")
    forbids = len(FORBIDS.findall(text))
    if forbids != (path == LIST):
        faults.append(f"{path}: forbids contraction {forbids} times; that belongs into {LIST.name}, once")
    undoes = UNDOES.search(text)
    if undoes:
        faults.append(f"{path}: {undoes[0]}: exact kernels must not be compiled so")
sys.exit("\n".join(faults) or 0)
