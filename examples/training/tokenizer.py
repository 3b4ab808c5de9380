"""A byte-level BPE tokenizer: trained on the generated text, written as a Hugging Face tokenizer.json.

Digits stay alone, a word carries the space before it, a line break carries the indentation behind it.
"""
import collections
import json
import re

import files

END, MASK, PAD = "<|end|>", "<|mask|>", "<|pad|>"
PATTERN = re.compile(r" ?[^\W\d_]+|\d| ?(?:[^\w\s]|_)|\s*[\r\n]+ *|\s")  # the same for ASCII text as:
PUBLISHED_PATTERN = r" ?\p{L}+|\p{N}| ?[^\s\p{L}\p{N}]|\s*[\r\n]+ *|\s"


def byte_alphabet():
    """The printable character that stands for each byte in files of byte-level BPE."""
    plain = [*range(33, 127), *range(161, 173), *range(174, 256)]
    spare = iter(range(256, 512))
    return [chr(b) if b in plain else chr(next(spare)) for b in range(256)]


def merged(parts, pair):
    """`parts` with every occurrence of the pair joined, from the left."""
    out, i = [], 0
    while i < len(parts):
        if parts[i:i + 2] == list(pair):
            out.append(parts[i] + parts[i + 1])
            i += 2
        else:
            out.append(parts[i])
            i += 1
    return out


def train(texts, vocab_size):
    """The merges, most frequent pair first; ties go to the pair that sorts first."""
    alphabet = byte_alphabet()
    counts = collections.Counter(chunk for text in texts for chunk in PATTERN.findall(text))
    words = [([alphabet[b] for b in chunk.encode()], n) for chunk, n in sorted(counts.items())]
    merges = []
    while 256 + len(merges) + 3 < vocab_size:
        pairs = collections.Counter()
        for parts, n in words:
            for pair in zip(parts, parts[1:]):
                pairs[pair] += n
        if not pairs:
            break
        best = min(pairs, key=lambda pair: (-pairs[pair], pair))
        merges.append(best)
        words = [(merged(parts, best) if best[0] in parts else parts, n) for parts, n in words]
    return merges


class Tokenizer:
    def __init__(self, merges):
        self.alphabet = byte_alphabet()
        self.merges = [tuple(pair) for pair in merges]
        self.rank = {pair: i for i, pair in enumerate(self.merges)}
        self.tokens = self.alphabet + [a + b for a, b in self.merges] + [END, MASK, PAD]
        self.id = {token: i for i, token in enumerate(self.tokens)}
        self.end, self.mask, self.pad = (self.id[t] for t in (END, MASK, PAD))
        self.byte = {c: b for b, c in enumerate(self.alphabet)}
        self.known = {}

    def __len__(self):
        return len(self.tokens)

    def _chunk(self, chunk):
        parts = [self.alphabet[b] for b in chunk.encode()]
        while len(parts) > 1:
            pair = min(zip(parts, parts[1:]), key=lambda p: self.rank.get(p, len(self.rank)))
            if pair not in self.rank:
                break
            parts = merged(parts, pair)
        return [self.id[p] for p in parts]

    def encode(self, text):
        ids = []
        for chunk in PATTERN.findall(text):
            if chunk not in self.known:
                self.known[chunk] = self._chunk(chunk)
            ids += self.known[chunk]
        return ids

    def decode(self, ids):
        """Text without special tokens."""
        first_special = len(self.tokens) - 3
        text = "".join(self.tokens[i] for i in ids if i < first_special)
        return bytes(self.byte[c] for c in text).decode(errors="replace")

    def document(self):
        """The content of tokenizer.json."""
        special = [dict(id=self.id[t], content=t, single_word=False, lstrip=False, rstrip=False, normalized=False,
                        special=True) for t in (END, MASK, PAD)]
        level = dict(type="ByteLevel", add_prefix_space=False, trim_offsets=False, use_regex=False)
        split = dict(type="Split", pattern=dict(Regex=PUBLISHED_PATTERN), behavior="Isolated", invert=False)
        return dict(version="1.0", truncation=None, padding=None, added_tokens=special, normalizer=None,
                    pre_tokenizer=dict(type="Sequence", pretokenizers=[split, level]), post_processor=level, decoder=level,
                    model=dict(type="BPE", dropout=None, unk_token=None, continuing_subword_prefix="",
                               end_of_word_suffix="", fuse_unk=False, byte_fallback=False, ignore_merges=False,
                               vocab={t: i for i, t in enumerate(self.tokens[:-3])}, merges=[list(m) for m in self.merges]))

    def save(self, path):
        files.write_json(path, self.document(), end="", ensure_ascii=False, indent=0)

    @staticmethod
    def load(path):
        with open(path) as f:
            return Tokenizer(json.load(f)["model"]["merges"])
