"""The frozen target answers new problems: the text that the draft learns from is the text that it will have to guess."""
import collections
import json
import os

import torch

import averaging
import files
import problems
from decode import cut, generate_batch


def answered(target, tokenizer, asked, batch=64):
    """[(problem, prompt length, ids up to the end token)]; answers that do not end are left out."""
    target.eval()
    out, waiting = [], collections.defaultdict(list)
    for one in asked:
        prompt = tokenizer.encode(one.question + "\n")
        waiting[len(prompt)].append((one, prompt))
    for length, group in sorted(waiting.items()):
        for first in range(0, len(group), batch):
            part = group[first:first + batch]
            ids = generate_batch(target, torch.tensor([prompt for _, prompt in part]), problems.LONGEST_ANSWER,
                                 tokenizer.end)
            for (one, _), row in zip(part, ids):
                row = cut(row, length, tokenizer.end)
                if row[-1] == tokenizer.end:
                    out.append((one, length, row))
    return out


def write(target, tokenizer, seed, parts, size, path, workers=2):
    """parts * size problems, answered, as lines of JSON [prompt length, ids] in path.0, path.1, ... A part that is there is
    kept."""
    def work(rank):
        for part in range(rank, parts, workers):
            if os.path.exists(f"{path}.{part}"):
                continue
            asked = problems.examples(f"{seed} answers {part}", size)
            rows = answered(target, tokenizer, asked)
            exact = sum(tokenizer.decode(row[prompt:]) == one.solution for one, prompt, row in rows)
            files.write_text(f"{path}.{part}", "".join(json.dumps([prompt, row]) + "\n" for _, prompt, row in rows))
            print(f"part {part + 1} of {parts}: {len(rows)} of {size} answers end, {exact} equal the true text", flush=True)
    averaging.run_workers(work, workers, "writing answers")


def read(path, parts):
    rows = []
    for part in range(parts):
        with open(f"{path}.{part}") as f:
            rows += [tuple(json.loads(line)) for line in f]
    return rows


def chunks(rows, share, rest, size=128):
    """Chunks of which the first `share` are rows in turn, where there are any, and what is left comes from `rest`."""
    own = round(share * size) if rows else 0

    def chunk(n):
        return [rows[(n * own + i) % len(rows)] for i in range(own)] + rest(n)[:size - own]
    return chunk


def accuracy(target, tokenizer, asked):
    """({kind: [right, asked]}, [(problem, text) of the wrong ones]), with bf16 arithmetic, quick."""
    found = {id(one): row for one, _, row in answered(target, tokenizer, asked)}
    prompts = {id(one): len(tokenizer.encode(one.question + "\n")) for one in asked}
    result, wrong = {}, []
    for one in asked:
        text = tokenizer.decode(found[id(one)][prompts[id(one)]:]) if id(one) in found else "(does not end)"
        right = one.right(text)
        entry = result.setdefault(one.kind, [0, 0])
        entry[0] += right
        entry[1] += 1
        if not right:
            wrong.append((one, text))
    return result, wrong
