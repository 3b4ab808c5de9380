"""The CUDA compiler, its flags, and the architectures that the backend must compile for."""
import os
import pathlib
import re
import shutil
import subprocess
import sys

SOURCE = pathlib.Path(__file__).resolve().parents[2]
BACKEND = SOURCE / "backends/cuda"
HERE = SOURCE / "tests/cuda_legs"
ARCHITECTURES = ("80", "90", "100", "120")


def find():
    """The path of nvcc, or None: CUDACXX, then PATH, then where the toolkit installs itself."""
    for candidate in (os.environ.get("CUDACXX"), "nvcc", "/usr/local/cuda/bin/nvcc"):
        found = shutil.which(candidate) if candidate else None
        if found:
            return found
    return None


def need():
    """The path of nvcc; without one the program ends well, with one line."""
    found = find()
    if not found:
        print("skipped: nvcc was not found")
        sys.exit(0)
    return found


def flags():
    lines = (BACKEND / "nvcc_flags.txt").read_text().split("\n")
    options = [line for line in lines if line and not line.startswith("#")]
    return options + ["-I", str(SOURCE / "include"), "-I", str(BACKEND / "include")]


def run(*options):
    """What nvcc printed. Ends the program when it fails."""
    command = [need(), *map(str, options)]
    done = subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
    if done.returncode != 0:
        print(done.stdout, end="")
        print("FAILED:", *command)
        sys.exit(1)
    return done.stdout


def version():
    return re.search(r"release (\d+\.\d+)", run("--version"))[1]


def known(architectures):
    """Those that this nvcc can compile for; the others are named."""
    can = run("--list-gpu-arch").split()
    for architecture in architectures:
        if f"compute_{architecture}" not in can:
            print(f"skipped: this nvcc does not know sm_{architecture}")
    return [architecture for architecture in architectures if f"compute_{architecture}" in can]
