"""Right answers for tests: held-out problems with the greedy ids and acceptance lengths of a float64 run on the weights as
stored. Also the whole held-out set as text.

usage: golden.py PAIR FOLDER [COUNT]
"""
import json
import os
import sys

import torch

import decode
import export
import files
import problems
from tokenizer import Tokenizer

BLOCKS = (8, 16)


def golden(pair, asked, new_tokens):
    target, draft = export.load_pair(pair)
    target, draft = target.double(), draft.double()
    tokenizer = Tokenizer.load(f"{pair}/target/tokenizer.json")
    out = []
    for one in asked:
        prompt = tokenizer.encode(one.question + "\n")
        tokens = decode.serial(target, prompt, new_tokens, tokenizer.end)
        runs = []
        for block in BLOCKS:
            text, lengths = decode.speculative(target, draft, prompt, new_tokens, tokenizer.end, block, tokenizer.mask)
            assert text == tokens
            runs.append(dict(block_size=block, acceptance_lengths=lengths))
        text = tokenizer.decode(tokens)
        out.append(dict(kind=one.kind, prompt=one.question + "\n", prompt_ids=prompt, text=text, right=one.right(text),
                        max_new_tokens=new_tokens, tokens=tokens, runs=runs))
    return out


def main():
    pair, folder = sys.argv[1:3]
    count = int(sys.argv[3]) if len(sys.argv) > 3 else 16
    torch.set_num_threads(1)
    os.makedirs(folder, exist_ok=True)
    held = problems.held_out_set(300, problems.MEASURED_SET)
    step = max(1, len(held) // count) | 1  # odd: steps through the kinds
    files.write_json(f"{folder}/problems.json", golden(pair, held[::step][:count], problems.LONGEST_ANSWER),
                     separators=(",", ":"))
    lines = [json.dumps(dict(kind=one.kind, new_wording=one.new_wording, question=one.question, solution=one.solution,
                             answer=one.answer)) + "\n" for one in held]
    files.write_text(f"{folder}/held_out.jsonl", "".join(lines))


if __name__ == "__main__":
    main()
