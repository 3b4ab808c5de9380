"""The target (Qwen3 architecture) and the DFlash draft, in plain PyTorch. Names of parameters follow the checkpoints.

Shapes: B texts, T positions, H the hidden size, A blocks of W positions in each text.
"""
import torch
import torch.nn.functional as F
from torch import nn


class _RmsNorm(torch.autograd.Function):
    """Written out, because the derived backward pass is slow on a CPU."""

    @staticmethod
    def forward(ctx, x, weight, eps):
        inverse = (x.square().mean(-1, keepdim=True) + eps).rsqrt()
        normal = x * inverse
        ctx.save_for_backward(normal, inverse, weight)
        return normal * weight

    @staticmethod
    def backward(ctx, grad):
        normal, inverse, weight = ctx.saved_tensors
        grad = grad.to(normal.dtype)
        of_weight = (grad * normal).reshape(-1, normal.shape[-1]).sum(0)
        scaled = grad * weight
        mean = (scaled * normal).mean(-1, keepdim=True)
        return (scaled - normal * mean) * inverse, of_weight, None


class RMSNorm(nn.Module):
    def __init__(self, size, eps):
        super().__init__()
        self.weight = nn.Parameter(torch.ones(size))
        self.eps = eps

    def forward(self, x):
        return _RmsNorm.apply(x.float() if x.dtype == torch.bfloat16 else x, self.weight, self.eps)


def rope_tables(config):
    """Cosines and sines [positions, head_dim], from float64."""
    d = config["head_dim"]
    inverse = 1.0 / config["rope_theta"] ** (torch.arange(0, d, 2, dtype=torch.float64) / d)
    angle = torch.arange(config["max_position_embeddings"], dtype=torch.float64)[:, None] * inverse
    angle = torch.cat([angle, angle], -1)
    return angle.cos(), angle.sin()


def rotate(x, cos, sin):
    half = x.shape[-1] // 2
    return x * cos + torch.cat([-x[..., half:], x[..., :half]], -1) * sin


class Attention(nn.Module):
    def __init__(self, config):
        super().__init__()
        hidden, eps = config["hidden_size"], config["rms_norm_eps"]
        self.heads, self.kv_heads = config["num_attention_heads"], config["num_key_value_heads"]
        self.width = config["head_dim"]
        self.q_proj = nn.Linear(hidden, self.heads * self.width, bias=False)
        self.k_proj = nn.Linear(hidden, self.kv_heads * self.width, bias=False)
        self.v_proj = nn.Linear(hidden, self.kv_heads * self.width, bias=False)
        self.o_proj = nn.Linear(self.heads * self.width, hidden, bias=False)
        self.q_norm = RMSNorm(self.width, eps)
        self.k_norm = RMSNorm(self.width, eps)

    def queries(self, x, cos, sin):
        """[B, heads, T, width], rotated and scaled."""
        q = self.q_norm(self.q_proj(x).view(*x.shape[:2], self.heads, self.width)).transpose(1, 2)
        return rotate(q, cos, sin) * self.width ** -0.5

    def keys_values(self, x, cos, sin):
        """Two of [B, kv_heads, T, width]; the keys are rotated."""
        shape = (*x.shape[:2], self.kv_heads, self.width)
        k = rotate(self.k_norm(self.k_proj(x).view(shape)).transpose(1, 2), cos, sin)
        return k, self.v_proj(x).view(shape).transpose(1, 2)


class MLP(nn.Module):
    def __init__(self, config):
        super().__init__()
        hidden, inner = config["hidden_size"], config["intermediate_size"]
        self.gate_proj = nn.Linear(hidden, inner, bias=False)
        self.up_proj = nn.Linear(hidden, inner, bias=False)
        self.down_proj = nn.Linear(inner, hidden, bias=False)

    def forward(self, x):
        return self.down_proj(F.silu(self.gate_proj(x)) * self.up_proj(x))


class Layer(nn.Module):
    def __init__(self, config):
        super().__init__()
        self.self_attn = Attention(config)
        self.mlp = MLP(config)
        self.input_layernorm = RMSNorm(config["hidden_size"], config["rms_norm_eps"])
        self.post_attention_layernorm = RMSNorm(config["hidden_size"], config["rms_norm_eps"])


def attend(q, k, v, bias=None):
    """q [B, heads, T, d], k and v [B, kv_heads, S, d], bias [T, S] added to the scores: [B, T, heads * d]."""
    b, heads, t, d = q.shape
    kv, s = k.shape[1:3]
    scores = torch.bmm(q.reshape(b * kv, -1, d), k.reshape(b * kv, s, d).transpose(1, 2)).view(b * kv, -1, t, s)
    if bias is not None:
        scores = scores + bias.to(scores.dtype)
    weights = torch.softmax(scores, -1, dtype=scores.dtype).view(b * kv, -1, s)
    out = torch.bmm(weights.to(v.dtype), v.reshape(b * kv, s, d)).view(b, heads, t, d)
    return out.transpose(1, 2).reshape(b, t, heads * d)


def init_weights(model, layers, seed):
    """Normal weights; what writes into the residual stream is scaled down by the depth."""
    generator = torch.Generator().manual_seed(seed)
    for name, p in model.named_parameters():
        if p.dim() == 2:
            std = 0.06 if "embed" in name else 0.7 * p.shape[1] ** -0.5
            if "o_proj" in name or "down_proj" in name:
                std /= (2 * layers) ** 0.5
            p.data.normal_(0, std, generator=generator)


class Target(nn.Module):
    def __init__(self, config):
        super().__init__()
        self.config = config
        self.embed_tokens = nn.Embedding(config["vocab_size"], config["hidden_size"])
        self.layers = nn.ModuleList(Layer(config) for _ in range(config["num_hidden_layers"]))
        self.norm = RMSNorm(config["hidden_size"], config["rms_norm_eps"])
        cos, sin = rope_tables(config)
        self.register_buffer("cos", cos.float(), persistent=False)
        self.register_buffer("sin", sin.float(), persistent=False)

    def forward(self, ids, taps=(), cache=None, start=0):
        """ids [B, T] at positions start...: the normed hidden states [B, T, H] and the streams after layers `taps`, joined
        [B, T, taps * H]. cache: per layer None or (keys, values) of the positions before; replaced by longer ones."""
        t = ids.shape[1]
        x = F.embedding(ids, self.embed_tokens.weight)
        cos, sin = self.cos[start:start + t], self.sin[start:start + t]
        bias = torch.full((t, start + t), float("-inf")).triu_(1 + start) if t > 1 else None
        tapped = {}
        for i, layer in enumerate(self.layers):
            h, attention = layer.input_layernorm(x), layer.self_attn
            k, v = attention.keys_values(h, cos, sin)
            if cache is not None:
                if cache[i] is not None:
                    k, v = torch.cat([cache[i][0], k], 2), torch.cat([cache[i][1], v], 2)
                cache[i] = (k, v)
            x = x + attention.o_proj(attend(attention.queries(h, cos, sin), k, v, bias))
            x = x + layer.mlp(layer.post_attention_layernorm(x))
            tapped[i] = x
        return self.norm(x), torch.cat([tapped[i] for i in taps], -1) if taps else None

    def logits(self, hidden):
        return F.linear(hidden, self.embed_tokens.weight)


class Draft(nn.Module):
    """C = RMSNorm(fc(features)) gives keys and values to every layer; a block [anchor, MASK, ...] is filled in one pass, and
    attention inside it goes both ways. Embedding and head are the target's."""

    def __init__(self, config):
        super().__init__()
        self.config = config
        self.taps = tuple(config["dflash_config"]["target_layer_ids"])
        hidden, eps = config["hidden_size"], config["rms_norm_eps"]
        self.layers = nn.ModuleList(Layer(config) for _ in range(config["num_hidden_layers"]))
        self.norm = RMSNorm(hidden, eps)
        self.fc = nn.Linear(len(self.taps) * hidden, hidden, bias=False)
        self.hidden_norm = RMSNorm(hidden, eps)
        cos, sin = rope_tables(config)
        self.register_buffer("cos", cos.float(), persistent=False)
        self.register_buffer("sin", sin.float(), persistent=False)

    def context(self, features):
        return self.hidden_norm(self.fc(features))

    def train_blocks(self, features, blocks, anchors):
        """features [B, T, taps * H], embedded blocks [B, A, W, H], positions of their anchors [B, A]: the normed outputs
        [B, A, W, H]. A block sees features strictly before its anchor and itself, both ways; no other block."""
        b, a, w, hidden = blocks.shape
        t = features.shape[1]
        c = self.context(features)
        positions = (anchors[:, :, None] + torch.arange(w)).view(b, a * w)
        cos, sin = self.cos[positions].unsqueeze(1), self.sin[positions].unsqueeze(1)
        hide = torch.zeros(b, a, t).masked_fill_(torch.arange(t) >= anchors[:, :, None], float("-inf"))
        x = blocks.reshape(b, a * w, hidden)
        for layer in self.layers:
            attention, h = layer.self_attn, layer.input_layernorm(x)
            kv, d, g = attention.kv_heads, attention.width, attention.heads // attention.kv_heads
            q = attention.queries(h, cos, sin)
            k_own, v_own = attention.keys_values(h, cos, sin)
            k_context, v_context = attention.keys_values(c, self.cos[:t], self.sin[:t])
            to_context = torch.matmul(q.reshape(b, kv, g * a * w, d), k_context.transpose(2, 3)).view(b, kv, g, a, w, t)
            to_context = to_context + hide[:, None, None, :, None, :].to(to_context.dtype)
            q_own = q.view(b, kv, g, a, w, d).transpose(2, 3).reshape(b * kv * a, g * w, d)
            k_own, v_own = k_own.reshape(b * kv * a, w, d), v_own.reshape(b * kv * a, w, d)
            to_own = torch.bmm(q_own, k_own.transpose(1, 2)).view(b, kv, a, g, w, w).transpose(2, 3)
            weights = torch.softmax(torch.cat([to_context, to_own.to(to_context.dtype)], -1), -1, dtype=to_context.dtype)
            from_context = torch.matmul(weights[..., :t].reshape(b, kv, g * a * w, t), v_context.to(weights.dtype))
            w_own = weights[..., t:].transpose(2, 3).reshape(b * kv * a, g * w, w)
            from_own = torch.bmm(w_own, v_own.to(weights.dtype)).view(b, kv, a, g, w, d).transpose(2, 3)
            out = from_context.view(b, kv, g, a, w, d) + from_own
            out = out.reshape(b, kv * g, a * w, d).transpose(1, 2).reshape(b, a * w, -1)
            x = x + attention.o_proj(out)
            x = x + layer.mlp(layer.post_attention_layernorm(x))
        return self.norm(x).view(b, a, w, hidden)

    def step(self, features, block, cache, anchor):
        """One block while decoding. features [1, new, taps * H] of the positions just before `anchor` that the cache has not
        seen; block [1, W, H]; cache: per layer None or (keys, values) of the context, replaced by longer ones."""
        c, first, w = self.context(features), anchor - features.shape[1], block.shape[1]
        cos, sin = self.cos[anchor:anchor + w], self.sin[anchor:anchor + w]
        x = block
        for i, layer in enumerate(self.layers):
            attention, h = layer.self_attn, layer.input_layernorm(x)
            k, v = attention.keys_values(c, self.cos[first:anchor], self.sin[first:anchor])
            if cache[i] is not None:
                k, v = torch.cat([cache[i][0], k], 2), torch.cat([cache[i][1], v], 2)
            cache[i] = (k, v)
            k_own, v_own = attention.keys_values(h, cos, sin)
            k, v = torch.cat([k, k_own], 2), torch.cat([v, v_own], 2)
            x = x + attention.o_proj(attend(attention.queries(h, cos, sin), k, v))
            x = x + layer.mlp(layer.post_attention_layernorm(x))
        return self.norm(x)
