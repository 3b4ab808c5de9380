"""Makes a trained target wider and deeper without changing what it computes.

Width: every unit of the residual stream, of the MLPs and every head is doubled. What reads a doubled unit gets the weight
in two parts, w/2 + n and w/2 - n with noise n, so the sum is what it was, but the two copies learn different things.
RMSNorm gives two equal halves the same scale as one. Embedding and head are tied: the embedding is doubled as it is, and
the last norm's weight is halved. Depth: a new layer whose o_proj and down_proj are zero adds nothing until it learns.
"""
import torch

DOUBLED_ROWS = ("q_proj", "k_proj", "v_proj", "o_proj", "gate_proj", "up_proj", "down_proj")


def split(weight, noise, generator):
    """[out, in] -> [out, 2 in]: two parts that add up to the weight; noise is relative to its spread."""
    n = torch.randn(weight.shape, generator=generator) * weight.std() * noise
    return torch.cat([weight / 2 + n, weight / 2 - n], 1)


def widened(state, noise=0.5, seed=0):
    """The state dict of a target of twice the hidden size, heads and intermediate size."""
    generator, out = torch.Generator().manual_seed(seed), {}
    for name, value in state.items():
        part = name.split(".")[-2]
        if part in DOUBLED_ROWS:
            out[name] = split(torch.cat([value, value]), noise, generator)
        elif part == "embed_tokens":
            out[name] = torch.cat([value, value], 1)
        elif part in ("q_norm", "k_norm"):
            out[name] = value.clone()
        else:
            out[name] = torch.cat([value, value])
    out["norm.weight"] = out["norm.weight"] / 2
    return out


def deepened(state, origin, seed=0):
    """origin: for each layer of the new target the old layer it comes from. The first use of an old layer keeps it; every
    further use starts as new: a copy with zeroed outputs, and a little noise in the rest."""
    generator, seen = torch.Generator().manual_seed(seed), set()
    out = {name: value.clone() for name, value in state.items() if not name.startswith("layers.")}
    for new, old in enumerate(origin):
        for name, value in state.items():
            if not name.startswith(f"layers.{old}."):
                continue
            copy = value.clone()
            if old in seen and ("o_proj" in name or "down_proj" in name):
                copy.zero_()
            elif old in seen and value.dim() == 2:
                copy += torch.randn(copy.shape, generator=generator) * copy.std() * 0.1
            out[name.replace(f"layers.{old}.", f"layers.{new}.", 1)] = copy
        seen.add(old)
    return out


def grown_config(config, layers):
    wide = {key: 2 * config[key] for key in ("hidden_size", "intermediate_size", "num_attention_heads", "num_key_value_heads")}
    return {**config, **wide, "num_hidden_layers": layers, "max_window_layers": layers,
            "layer_types": ["full_attention"] * layers}
