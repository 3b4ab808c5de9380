"""What exact kernels may do with floating-point numbers, as PTX instructions.

Whatever computes must be one correctly rounded IEEE-754 operation that the assembler cannot fuse: `.rn`, no `.ftz`. The
list says what may be; all other instructions on floating-point types are faults, and so are matrix instructions.
"""
import re

# An instruction whose name holds one of these works on floating-point numbers.
FLOATING = re.compile(r"\.(f16|f16x2|bf16|bf16x2|tf32|f32|f32x2|f64|e\dm\d(x\d)?|ue\dm\d(x\d)?)(?=\.|$)")
MATRIX = re.compile(r"^(mma|wmma|wgmma|tcgen05)\b")

MOVES = r"(ld|ldu|st|mov|selp)(\.\w+|::\w+)*"
COMPARES = r"(setp|set)\.(eq|ne|lt|le|gt|ge|equ|neu|ltu|leu|gtu|geu|num|nan)(\.and|\.or|\.xor)?(\.u32|\.s32)?\.{type}"
SIGNS = r"(neg|abs|min|max|copysign|testp\.\w+)\.{type}"
ARITHMETIC = r"(add|sub|mul|fma|div|sqrt|rcp)\.rn\.{type}"
FROM_WHOLE = r"cvt\.rn\.{type}\.[su](8|16|32|64)"
TO_WHOLE = r"cvt\.r[nzmp]i\.[su](8|16|32|64)\.{type}"
TO_INTEGRAL = r"cvt\.r[nzmp]i\.{type}\.{type}"
WIDEN = r"cvt\.f32\.(f16|bf16)"
NARROW = r"cvt\.rn\.(f16|bf16)\.f32"
BETWEEN = r"cvt\.f64\.f32|cvt\.rn\.f32\.f64"


def pattern(type_name, *more):
    by_type = (COMPARES, SIGNS, ARITHMETIC, FROM_WHOLE, TO_WHOLE, TO_INTEGRAL)
    return re.compile("|".join(f"(?:{p.replace('{type}', type_name)})" for p in (MOVES, *by_type, *more)))


ALLOWED = pattern("f32", WIDEN, NARROW)
ALLOWED_F64 = pattern("f64", BETWEEN)

# Exact kernels that may compute in f64, by the name of their struct.
F64_KERNELS = frozenset()

FUNCTION = re.compile(r"\.(?:entry|func)\s+(?:\([^)]*\)\s*)?([\w$]+)")
CANARY = "contraction_canary"


def instructions(ptx):
    """(function, instruction) of every instruction; the function by its mangled name."""
    name = None
    code = re.sub(r"//.*|/\*.*?\*/|^\s*\.(loc|file)\b.*$", "", ptx, flags=re.MULTILINE)
    for statement in re.split(r"[;{}]\s|;", code):
        found = FUNCTION.search(statement)
        text = re.sub(r"^(?:[\s{}]|\$?\w+:|@!?%\w+)+", "", statement)
        if found:
            name = found[1]
        elif text and not text.startswith("."):
            yield name, text.split()[0]


def lint(ptx, readable, f64_kernels=F64_KERNELS):
    """The faults, one sentence each. readable(mangled name) is what a fault says."""
    faults = set()
    canary = set()
    for name, opcode in instructions(ptx):
        kernel = readable(name)
        if CANARY in kernel:
            canary.add(opcode)
        if not re.fullmatch(r"[a-z]\w*(\.\w+|::\w+)*", opcode):
            faults.add(f"{kernel}: {opcode} (not understood)")
        elif MATRIX.search(opcode):
            faults.add(f"{kernel}: {opcode} (a matrix instruction)")
        elif FLOATING.search(opcode):
            f64 = kernel.split("<")[0] in f64_kernels and ALLOWED_F64.fullmatch(opcode)
            if not f64 and not ALLOWED.fullmatch(opcode):
                faults.add(f"{kernel}: {opcode} (not one exact operation)")
    if not {"mul.rn.f32", "add.rn.f32"} <= canary or any(opcode.startswith("fma") for opcode in canary):
        faults.add(f"{CANARY}: needs a product and a sum of its own, got: {' '.join(sorted(canary)) or 'nothing'}")
    return sorted(faults)
