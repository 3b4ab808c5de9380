"""Decoding in plain PyTorch: many texts at once for training and accuracy, one at a time, with and without the draft."""
import numpy as np
import torch
import torch.nn.functional as F

from model import rotate


@torch.no_grad()
def generate_batch(model, prompts, new_tokens, end):
    """Greedy. prompts [B, P], all of one length. Weights and cache in bf16. Stops when every text has ended."""
    config, (b, p) = model.config, prompts.shape
    kv, d = config["num_key_value_heads"], config["head_dim"]
    group, size = config["num_attention_heads"] // kv, p + new_tokens
    keys = [torch.zeros(b, kv, size, d, dtype=torch.bfloat16) for _ in model.layers]
    values = [torch.zeros(b, kv, size, d, dtype=torch.bfloat16) for _ in model.layers]
    low = {id(w): w.detach().bfloat16() for w in model.parameters() if w.dim() == 2}

    def linear(module, x):
        return F.linear(x.bfloat16(), low[id(module.weight)])

    ids = torch.cat([prompts, torch.zeros(b, new_tokens, dtype=torch.long)], 1)
    at, current, done = 0, prompts, torch.zeros(b, dtype=torch.bool)
    while True:
        t = current.shape[1]
        x = F.embedding(current, model.embed_tokens.weight)
        cos, sin = model.cos[at:at + t], model.sin[at:at + t]
        bias = torch.full((t, at + t), float("-inf"), dtype=torch.bfloat16).triu_(1 + at) if t > 1 else None
        for i, layer in enumerate(model.layers):
            a, h = layer.self_attn, layer.input_layernorm(x)
            q = a.q_norm(linear(a.q_proj, h).float().view(b, t, a.heads, d)).transpose(1, 2)
            k = a.k_norm(linear(a.k_proj, h).float().view(b, t, kv, d)).transpose(1, 2)
            keys[i][:, :, at:at + t] = rotate(k, cos, sin).bfloat16()
            values[i][:, :, at:at + t] = linear(a.v_proj, h).view(b, t, kv, d).transpose(1, 2)
            q = (rotate(q, cos, sin) * d ** -0.5).bfloat16().reshape(b * kv, group * t, d)
            seen_keys = keys[i][:, :, :at + t].reshape(b * kv, at + t, d)
            scores = torch.bmm(q, seen_keys.transpose(1, 2)).view(b * kv, group, t, at + t)
            scores = scores if bias is None else scores + bias
            weights = torch.softmax(scores.float(), -1).bfloat16().view(b * kv, group * t, at + t)
            out = torch.bmm(weights, values[i][:, :, :at + t].reshape(b * kv, at + t, d))
            out = out.view(b, a.heads, t, d).transpose(1, 2).reshape(b, t, a.heads * d)
            x = x + linear(a.o_proj, out).float()
            h = layer.post_attention_layernorm(x)
            gate = F.silu(linear(layer.mlp.gate_proj, h).float())
            x = x + linear(layer.mlp.down_proj, gate * linear(layer.mlp.up_proj, h).float()).float()
        following = linear(model.embed_tokens, model.norm(x[:, -1:]))[:, 0].float().argmax(-1)
        at += t
        ids[:, at] = following
        done |= following == end
        if at + 1 >= size or bool(done.all()):
            return ids
        current = following[:, None]


def cut(row, prompt, end):
    """The ids up to and with the first end token behind the prompt; all where there is none."""
    row = row.tolist()
    return row[:row.index(end, prompt) + 1] if end in row[prompt:] else row


def gumbel(seed, position, size):
    """Noise for one position, the same for target and draft: this is what couples them."""
    u = np.random.Generator(np.random.Philox(key=[seed, position])).random(size)
    return torch.from_numpy(-np.log(-np.log(np.maximum(u, 1e-300))))


class Chooser:
    """Greedy at temperature 0, else Gumbel-max with noise by (seed, position)."""

    def __init__(self, temperature=0.0, seed=0):
        self.temperature, self.seed = temperature, seed

    def __call__(self, logits, first):
        """logits [n, V] of positions first...: n tokens."""
        if not self.temperature:
            return logits.argmax(-1).tolist()
        noise = torch.stack([gumbel(self.seed, first + i, logits.shape[1]) for i in range(len(logits))])
        return (logits.double() / self.temperature + noise).argmax(-1).tolist()


@torch.no_grad()
def serial(target, prompt, new_tokens, end, choose=Chooser()):
    """The new tokens, one forward each, to the end token or the limit."""
    cache, out, current = [None] * len(target.layers), [], list(prompt)
    while len(out) < new_tokens and end not in out[-1:]:
        start = len(prompt) + len(out) - len(current)
        hidden, _ = target(torch.tensor([current]), cache=cache, start=start)
        out += choose(target.logits(hidden[0, -1:]), len(prompt) + len(out))
        current = out[-1:]
    return out


@torch.no_grad()
def speculative(target, draft, prompt, new_tokens, end, block, mask, choose=Chooser()):
    """The new tokens, and how many of them each round committed. A block is shortened to what is still allowed."""
    cache, draft_cache = [None] * len(target.layers), [None] * len(draft.layers)
    hidden, features = target(torch.tensor([prompt]), taps=draft.taps, cache=cache)
    ids = list(prompt) + choose(target.logits(hidden[0, -1:]), len(prompt))
    rounds, limit = [], len(prompt) + new_tokens
    while ids[-1] != end and len(ids) < limit:
        anchor, size = len(ids) - 1, min(block, limit - len(ids))
        rows = [ids[-1]] + [mask] * (size - 1)
        if size > 1:
            embedded = F.embedding(torch.tensor([rows]), target.embed_tokens.weight)
            out = draft.step(features, embedded, draft_cache, anchor)
            rows[1:] = choose(target.logits(out[0, 1:]), anchor + 1)
        hidden, features = target(torch.tensor([rows]), taps=draft.taps, cache=cache, start=anchor)
        own = choose(target.logits(hidden[0]), anchor + 1)
        accepted = 0
        while accepted < size - 1 and rows[accepted + 1] == own[accepted]:
            accepted += 1
        new = own[:accepted + 1]
        new = new[:new.index(end) + 1] if end in new else new
        rounds.append(len(new))
        ids += new
        keep = anchor + accepted + 1
        cache = [(k[:, :, :keep], v[:, :, :keep]) for k, v in cache]
        features = features[:, :accepted + 1]
    return ids[len(prompt):], rounds
