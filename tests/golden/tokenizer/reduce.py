#!/usr/bin/env python3
"""Cuts a byte-level BPE tokenizer.json down to what a set of texts can touch.

    python3 reduce.py tokenizer.json cases.json reduced.json

A merge can only happen where the text contains the bytes of its result. So every merge whose result occurs in one of
the texts is kept, in the file's order, and with it the vocabulary entries of both parts and the result; so are the 256
single bytes and all added tokens. Ids stay as they are, which leaves gaps. The texts get the same ids from the reduced
file as from the whole one.

Texts are not split into words first: merges across word borders are kept too, so that a tokenizer that splits wrongly
gives wrong ids. Both the texts and their NFC forms are looked at. Needs Python 3.8, nothing else.
"""

import json
import sys
import unicodedata


def byte_alphabet():
    """GPT-2's: byte -> the character that stands for it."""
    table, extra = {}, 0x100
    for byte in range(256):
        if 0x21 <= byte <= 0x7E or (byte >= 0xA1 and byte != 0xAD):
            table[byte] = chr(byte)
        else:
            table[byte] = chr(extra)
            extra += 1
    return table


def reduce(tokenizer, texts):
    alphabet = byte_alphabet()
    written = set()
    for text in texts:
        for form in (text, unicodedata.normalize("NFC", text)):
            written.add("".join(alphabet[b] for b in form.encode("utf-8")))
    haystack = "\n".join(sorted(written))  # the alphabet has no newline, so nothing matches across texts

    model = tokenizer["model"]
    keep = set(alphabet.values()) | {t["content"] for t in tokenizer["added_tokens"]}
    merges = []
    for merge in model["merges"]:
        left, right = merge.split(" ") if isinstance(merge, str) else merge
        if left + right in haystack:
            merges.append(merge)
            keep |= {left, right, left + right}
    model["merges"] = merges
    model["vocab"] = {entry: i for entry, i in model["vocab"].items() if entry in keep}
    return tokenizer


def main():
    source, cases, target = sys.argv[1:]
    with open(source, encoding="utf-8") as file:
        tokenizer = json.load(file)
    with open(cases, encoding="utf-8") as file:
        texts = [case["text"] for case in json.load(file)["cases"]]
    with open(target, "w", encoding="utf-8") as file:
        json.dump(reduce(tokenizer, texts), file, ensure_ascii=False, separators=(",", ":"))
        file.write("\n")


if __name__ == "__main__":
    main()
