"""Runs a Qwen3-shaped transformer in PyTorch, on orders from standard input: open, forward, crop, logits.

The one argument is a JSON file that says where the weights are. Every order is answered by "ok"; logits by "ok" and the
floats.
"""
import json
import sys

import numpy
import torch
import torch.nn.functional as F


class Transformer:
    def __init__(self, about):
        self.about = about
        self.dtype = torch.float32 if about["type"] == "f32" else torch.bfloat16
        self.file = numpy.memmap(about["model"], dtype=numpy.uint8, mode="r")
        d, hd = about["hidden"], about["head_dim"]
        q, kv, i = about["heads"] * hd, about["kv_heads"] * hd, about["intermediate"]
        self.embedding = self.matrix("token_embd", about["vocab"], d)
        self.head = self.embedding if about["tied"] else self.matrix("output", about["vocab"], d)
        self.layers = []
        for l in range(about["layers"]):
            b = f"blk.{l}."
            self.layers.append({
                "qkv": torch.cat([self.matrix(b + "attn_q", q, d), self.matrix(b + "attn_k", kv, d),
                                  self.matrix(b + "attn_v", kv, d)]),
                "o": self.matrix(b + "attn_output", d, q),
                "gate_up": torch.cat([self.matrix(b + "ffn_gate", i, d), self.matrix(b + "ffn_up", i, d)]),
                "down": self.matrix(b + "ffn_down", d, i)})
        self.ones = {n: torch.ones(n, dtype=self.dtype) for n in (d, hd)}  # the weights of all norms
        frequencies = about["theta"] ** (-torch.arange(0, hd, 2, dtype=torch.float64) / hd)
        self.frequencies = torch.cat([frequencies, frequencies])

    def matrix(self, name, rows, cols):
        at = self.about["offsets"][name + ".weight"]
        size = 4 if self.dtype == torch.float32 else 2
        raw = numpy.array(self.file[at:at + rows * cols * size])
        kind = numpy.float32 if size == 4 else numpy.int16
        return torch.from_numpy(raw.view(kind)).view(self.dtype).reshape(rows, cols)

    def open(self, context, room):
        a = self.about
        shape = (a["layers"], a["kv_heads"], context + room, a["head_dim"])
        self.keys, self.values = torch.zeros(shape, dtype=self.dtype), torch.zeros(shape, dtype=self.dtype)
        rows = torch.from_numpy(numpy.fromfile(a["rows"], dtype=numpy.float32))
        rows = rows.view(-1, a["kv_heads"], a["head_dim"]).to(self.dtype)
        for l in range(a["layers"]):
            at = 7 * torch.arange(context) + 101 * l
            self.keys[l, :, :context] = rows[at % 509].transpose(0, 1)
            self.values[l, :, :context] = rows[(at + 254) % 509].transpose(0, 1)
        angles = torch.outer(torch.arange(context + room, dtype=torch.float64), self.frequencies)
        self.cos, self.sin = angles.cos().to(self.dtype), angles.sin().to(self.dtype)
        self.length = context

    def norm(self, x):
        y = x.float()
        y = y * torch.rsqrt(y.pow(2).mean(-1, keepdim=True) + self.about["eps"])
        return self.ones[x.shape[-1]] * y.to(self.dtype)

    def rotate(self, x, cos, sin):
        half = x.shape[-1] // 2
        return x * cos + torch.cat([-x[..., half:], x[..., :half]], -1) * sin

    def forward(self, tokens, logit_rows):
        a = self.about
        m, first = len(tokens), self.length
        n = first + m
        h, g, e = a["heads"], a["kv_heads"], a["head_dim"]
        cos, sin = self.cos[first:n, None], self.sin[first:n, None]
        mask = None
        if m > 1:
            mask = torch.full((m, n), float("-inf")).triu(first + 1).to(self.dtype).repeat(h // g, 1)
        x = self.embedding[torch.tensor(tokens)]
        for l, w in enumerate(self.layers):
            q, k, v = F.linear(self.norm(x), w["qkv"]).split([h * e, g * e, g * e], -1)
            q = self.rotate(self.norm(q.view(m, h, e)), cos, sin)
            k = self.rotate(self.norm(k.view(m, g, e)), cos, sin)
            self.keys[l, :, first:n] = k.transpose(0, 1)
            self.values[l, :, first:n] = v.view(m, g, e).transpose(0, 1)
            q = q.view(m, g, h // g, e).permute(1, 2, 0, 3).reshape(g, h // g * m, e)
            scores = torch.matmul(q, self.keys[l, :, :n].transpose(1, 2)) * e ** -0.5
            if mask is not None:
                scores = scores + mask
            out = torch.matmul(torch.softmax(scores, -1, dtype=torch.float32).to(self.dtype), self.values[l, :, :n])
            out = out.view(g, h // g, m, e).permute(2, 0, 1, 3).reshape(m, h * e)
            x = x + F.linear(out, w["o"])
            gate, up = F.linear(self.norm(x), w["gate_up"]).chunk(2, -1)
            x = x + F.linear(F.silu(gate) * up, w["down"])
        self.logits = F.linear(self.norm(x[m - logit_rows:]), self.head).float()
        self.length = n


def main():
    with open(sys.argv[1]) as file:
        about = json.load(file)
    torch.set_num_threads(about["threads"])
    out = sys.stdout.buffer
    model = Transformer(about)

    def ok():
        out.write(b"ok\n")

    ok()
    out.flush()
    for line in sys.stdin:
        order, *rest = line.split()
        numbers = [int(word) for word in rest]
        if order == "open":
            model.open(*numbers)
        elif order == "forward":
            model.forward(numbers[1:], numbers[0])
        elif order == "crop":
            model.length = numbers[0]
        ok()
        if order == "logits":
            out.write(model.logits.numpy().tobytes())
        out.flush()


with torch.no_grad():
    main()
