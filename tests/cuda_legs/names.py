"""Kernels by name: from mangled symbols, and from the headers that define them."""
import functools
import re
import subprocess

import nvcc


@functools.cache
def readable(mangled):
    """linear_kernel<bf16, false, 8> for the entry of that kernel; other functions as c++filt spells them."""
    if not mangled:
        return "outside functions"
    name = subprocess.run(["c++filt", mangled], capture_output=True, text=True, check=True).stdout.strip()
    name = re.sub(r"dflash::v\w+::(?:cuda::)?", "", name)
    entry = re.search(r"detail::entry<(.*?)\s*>\(", name)
    return re.sub(r"> (?=>)", ">", entry[1]) if entry else name


def defined():
    """The structs of the backend that have a `run` for a thread. Ends the program for what it cannot place."""
    names = {}
    headers = [p for p in nvcc.BACKEND.joinpath("include").rglob("*") if p.suffix in (".hpp", ".cuh")]
    for header in sorted(headers):
        struct = None
        for number, line in enumerate(header.read_text().split("\n"), 1):
            found = re.match(r"(?:struct|class) (\w+)", line)
            struct = found[1] if found else struct
            if re.search(r"\bvoid run\(", line) and not line.lstrip().startswith("//"):
                if not struct:
                    raise SystemExit(f"FAILED: {header}:{number}: a run outside a struct")
                names[struct] = f"{header.relative_to(nvcc.SOURCE)}:{number}"
            if "__global__" in line and header.name != "execution_device.hpp":
                raise SystemExit(f"FAILED: {header}:{number}: a second entry; kernels have a run, see execution.hpp")
    if not names:
        raise SystemExit("FAILED: the backend's headers hold no kernel")
    return names
