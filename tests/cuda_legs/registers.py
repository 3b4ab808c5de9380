"""What ptxas says of each kernel: registers of a thread and bytes of memory; read, written and compared as a table."""
import collections
import re

import names
import nvcc

TABLE = nvcc.HERE / "registers.txt"
ALLOWANCE = 4  # registers that a change may cost without being noticed

Usage = collections.namedtuple("Usage", "registers spilled stack shared")

REPORT = re.compile(
    r"Compiling entry function '(\w+)'.*?"
    r"(\d+) bytes stack frame, (\d+) bytes spill stores, (\d+) bytes spill loads\s*"
    r"ptxas info\s*: Used (\d+) registers([^\n]*)",
    re.DOTALL,
)


def parse(report):
    """{kernel: Usage} from the output of ptxas -v."""
    found = {}
    for mangled, stack, stores, loads, registers, rest in REPORT.findall(report):
        shared = re.search(r"(\d+) bytes smem", rest)
        usage = Usage(int(registers), int(stores) + int(loads), int(stack), int(shared[1]) if shared else 0)
        found[names.readable(mangled)] = usage
    if len(found) != report.count("Compiling entry function"):
        raise SystemExit("FAILED: the output of ptxas -v is not understood:\n" + report)
    return found


def read():
    """(version of nvcc, {architecture: {kernel: Usage}})"""
    version, table = None, {}
    for line in TABLE.read_text().split("\n") if TABLE.exists() else []:
        if line.startswith("# nvcc "):
            version = line.split()[2]
        elif line and not line.startswith("#"):
            architecture, *numbers, kernel = line.split(None, 5)
            table.setdefault(architecture, {})[kernel] = Usage(*map(int, numbers))
    return version, table


def write(version, table):
    lines = [f"# nvcc {version} says: what a thread of each kernel takes. `kernels.py --write` writes this table.", "#",
             "#       registers  spilled  stack  static_shared  kernel    (bytes)"]
    for architecture, kernels in table.items():
        for kernel, usage in sorted(kernels.items()):
            lines.append("{:7} {:9} {:8} {:6} {:14}  {}".format(architecture, *usage, kernel))
    TABLE.write_text("\n".join(lines) + "\n")


def compare(expected, got):
    """The faults, one sentence each; both {kernel: Usage}."""
    faults = [f"{kernel}: is in the table, but was not compiled" for kernel in sorted(expected.keys() - got.keys())]
    for kernel, usage in sorted(got.items()):
        if kernel not in expected:
            faults.append(f"{kernel}: is not in the table")
            continue
        for field in Usage._fields:
            most = getattr(expected[kernel], field) + (ALLOWANCE if field == "registers" else 0)
            if getattr(usage, field) > most:
                faults.append(f"{kernel}: {field}: got {getattr(usage, field)}, needs at most {most}")
    return faults
