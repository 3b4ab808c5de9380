"""Sums spelled out one column at a time, in three layouts.

A small model gets a sum right when every token it writes follows from a few tokens that stand near: one digit of each
number, one carry. So numbers are first padded to one width ("0365"), columns go from the right, and the written digits
are read off at the end, leading zeros and all, before they are dropped.

Every function returns lines of text (or one line, where the name says so); values are whole numbers >= 0.
"""

PLACES = ["Ones", "Tens", "Hundreds", "Thousands", "Ten thousands", "Hundred thousands"]


def digits(number, width):
    """The decimal digits from the ones upwards, padded with zeros to `width`."""
    return [int(d) for d in str(number).zfill(width)[::-1]]


def padded(a, b):
    """Both numbers as text of one width."""
    width = max(len(str(a)), len(str(b)))
    return str(a).zfill(width), str(b).zfill(width)


def _add_steps(a, b):
    """(place, terms, sum, digit, carry) for each column."""
    width, carry, steps = max(len(str(a)), len(str(b))), 0, []
    for place, (x, y) in enumerate(zip(digits(a, width), digits(b, width))):
        terms = [x, y] + [1] * carry
        total = sum(terms)
        carry = total // 10
        steps.append((PLACES[place], terms, total, total % 10, carry))
    return steps


def _sub_steps(a, b):
    """(place, top digit, bottom digit, borrow in, top after borrowing, digit) for each column; a >= b."""
    width, borrow, steps = len(str(a)), 0, []
    for place, (x, y) in enumerate(zip(digits(a, width), digits(b, width))):
        top = x + 10 if x < y + borrow else x
        steps.append((PLACES[place], x, y, borrow, top, top - y - borrow))
        borrow = int(top != x)
    return steps


def _mul_steps(a, k):
    """(place, digit of a, product, carry in, sum) for each column; 2 <= k <= 9."""
    carry, steps = 0, []
    for place, x in enumerate(digits(a, len(str(a)))):
        steps.append((PLACES[place], x, x * k, carry, x * k + carry))
        carry = (x * k + carry) // 10
    return steps


def add_columns(a, b):
    top, bottom = padded(a, b)
    lines, steps = [f"Line up {top} and {bottom}."], _add_steps(a, b)
    for place, terms, total, digit, carry in steps:
        lines.append(f"{place}: {' + '.join(map(str, terms))} = {total}, write {digit}" + (", carry 1." if carry else "."))
    if steps[-1][-1]:
        lines.append(f"{PLACES[len(steps)]}: write 1.")
    return lines + [f"The digits are {a + b}."]


def sub_columns(a, b):
    top, bottom = padded(a, b)
    lines = [f"Line up {top} and {bottom}."]
    for place, x, y, borrow, after, digit in _sub_steps(a, b):
        less = f"{y} - 1" if borrow else f"{y}"
        lines.append(f"{place}: {x} - {less}" + (f" needs a borrow, {after} - {less}" if after != x else "") +
                     f" = {digit}, write {digit}.")
    return lines + [read_off(a - b, len(top))]


def mul_columns(a, k):
    lines, steps = [f"Multiply the digits of {a} by {k}."], _mul_steps(a, k)
    for i, (place, x, product, carry, total) in enumerate(steps):
        text = f"{place}: {x} * {k} = {product}" + (f", plus {carry} is {total}" if carry else "")
        last = i == len(steps) - 1
        lines.append(text + (f", write {total}." if last else f", write {total % 10}" +
                             (f", carry {total // 10}." if total > 9 else ".")))
    return lines + [f"The digits are {a * k}."]


def read_off(value, width):
    """The written digits as they stand, then without leading zeros."""
    shown = str(value).zfill(width)
    return f"The digits are {shown}." if shown == str(value) else f"The digits are {shown}, which is {value}."


def add_table(a, b):
    lines = ["| place | top | bottom | carry | sum | write |"]
    carry = 0
    for place, terms, total, digit, out in _add_steps(a, b):
        lines.append(f"| {place.lower()} | {terms[0]} | {terms[1]} | {carry} | {total} | {digit} |")
        carry = out
    if carry:
        lines.append(f"| {PLACES[len(lines) - 1].lower()} | 0 | 0 | 1 | 1 | 1 |")
    return lines + [f"The digits are {a + b}."]


def sub_table(a, b):
    lines = ["| place | top | bottom | borrowed | becomes | write |"]
    for place, x, y, borrow, after, digit in _sub_steps(a, b):
        lines.append(f"| {place.lower()} | {x} | {y} | {borrow} | {after} | {digit} |")
    return lines + [read_off(a - b, len(str(a)))]


def mul_table(a, k):
    lines = ["| place | digit | product | carry | sum |"]
    for place, x, product, carry, total in _mul_steps(a, k):
        lines.append(f"| {place.lower()} | {x} | {product} | {carry} | {total} |")
    return lines + [f"The digits are {a * k}."]


def add_line(a, b):
    top, bottom = padded(a, b)
    steps = [f"{' + '.join(map(str, terms))} = {total}" for _, terms, total, _, _ in _add_steps(a, b)]
    return f"{top} + {bottom}: {', '.join(steps)}, so {a + b}."


def sub_line(a, b):
    top, bottom = padded(a, b)
    steps = [f"{after} - {y}{' - 1' if borrow else ''} = {digit}" for _, _, y, borrow, after, digit in _sub_steps(a, b)]
    shown = str(a - b).zfill(len(top))
    return f"{top} - {bottom}: {', '.join(steps)}, so {shown}{'' if shown == str(a - b) else f' or {a - b}'}."


def mul_line(a, k):
    steps = [f"{x} * {k} = {product}" + (f" plus {carry} is {total}" if carry else "")
             for _, x, product, carry, total in _mul_steps(a, k)]
    return f"{a} * {k}: {', '.join(steps)}, so {a * k}."


ADD = {"columns": add_columns, "table": add_table, "short": lambda a, b: [add_line(a, b)]}
SUB = {"columns": sub_columns, "table": sub_table, "short": lambda a, b: [sub_line(a, b)]}
MUL = {"columns": mul_columns, "table": mul_table, "short": lambda a, k: [mul_line(a, k)]}


def divide(a, k):
    """Long division of a by k, 2 <= k <= 9: lines, quotient, remainder."""
    rest, quotient, lines = 0, "", []
    for i, ch in enumerate(str(a)):
        value = 10 * rest + int(ch)
        times = value // k
        word = "Start with" if i == 0 else f"Bring down {ch}:"
        lines.append(f"{word} {value}. {k} goes {times} times, {times} * {k} = {times * k}, {value} - {times * k} = "
                     f"{value - times * k}.")
        rest, quotient = value - times * k, quotient + str(times)
    return lines, quotient, rest
