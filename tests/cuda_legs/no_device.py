#!/usr/bin/env python3
"""A program with the backend links, and says in one line, with status 3, that there is no device."""
import os
import pathlib
import subprocess
import sys
import tempfile

import nvcc

nvcc.need()
with tempfile.TemporaryDirectory() as folder:
    program = pathlib.Path(folder) / "cuda-info"
    nvcc.run(*nvcc.flags(), "-arch=sm_90", nvcc.SOURCE / "examples/cuda_info/main.cu", "-o", program)
    hidden = {**os.environ, "CUDA_VISIBLE_DEVICES": ""}
    done = subprocess.run([program], env=hidden, capture_output=True, text=True)
print(done.stdout + done.stderr, end="")
if (done.returncode, done.stdout, done.stderr) != (3, "", "cuda-info: cuda: no device was found\n"):
    sys.exit(f"FAILED: status {done.returncode}, needs 3 and the sentence that no device was found")
