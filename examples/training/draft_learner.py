"""What the draft learns: to fill blocks behind random anchors, from features of the frozen target."""
import zlib

import torch
import torch.nn.functional as F

import batches
from model import Draft

GAMMA = {4: 2.0, 8: 4.0, 16: 7.0}  # how fast the weight of later slots falls


def draft_config(target, layers, taps, block, mask, inner=None):
    return {**target, "architectures": ["DFlashDraftModel"], "num_hidden_layers": layers, "max_window_layers": layers,
            "layer_types": ["full_attention"] * layers, "intermediate_size": inner or target["intermediate_size"],
            "num_target_layers": target["num_hidden_layers"], "block_size": block,
            "dflash_config": {"mask_token_id": mask, "target_layer_ids": list(taps)}}


def slot_weights(block):
    """exp(-(k - 1) / gamma) for slots k = 1 .. block - 1."""
    return torch.exp(-torch.arange(block - 1, dtype=torch.float32) / GAMMA[block])


def pick_anchors(prompts, lengths, count, generator):
    """[B, count] positions: one in each of `count` equal parts of a text's answer. At least one token follows an anchor,
    and the first anchor can be the first token of the answer."""
    u = (torch.arange(count) + torch.rand(len(prompts), count, generator=generator)) / count
    return prompts[:, None] + (u * (lengths - 1 - prompts)[:, None]).long()


def block_labels(ids, lengths, anchors, block):
    """Tokens [B, A, block] from each anchor on, and which of the slots 1.. lie inside the text [B, A, block - 1]."""
    places = anchors[:, :, None] + torch.arange(block)
    inside = places < lengths[:, None, None]
    labels = torch.gather(ids, 1, places.clamp_max(ids.shape[1] - 1).flatten(1)).view(places.shape)
    return labels, inside[:, :, 1:].float()


class DraftLearner:
    def __init__(self, target, config, weights, chunk, seed, tokens, rows=256):
        """chunk: see batches.Stream. rows: block rows a text."""
        self.model = Draft(config)
        self.model.load_state_dict(weights)
        self.target, self.seed, self.rows = target, seed, rows
        self.block, self.mask = config["block_size"], config["dflash_config"]["mask_token_id"]
        self.stream = batches.Stream(chunk, tokens, seed)

    def position(self):
        return self.stream.position()

    def seek(self, position):
        self.stream.seek(position)

    def block_at(self, generator):
        """Mostly the draft's own block; shorter ones, so that it can be asked for less."""
        u = float(torch.rand((), generator=generator))
        return self.block if u < 0.7 or self.block == 4 else (self.block // 2 if u < 0.9 else 4)

    def loss(self, step):
        generator = torch.Generator().manual_seed(zlib.crc32(f"{self.seed} {step}".encode()))
        ids, prompts, lengths = next(self.stream)
        block = self.block_at(generator)
        anchors = pick_anchors(prompts, lengths, self.rows // block, generator)
        labels, inside = block_labels(ids, lengths, anchors, block)
        given = torch.full_like(labels, self.mask)
        given[:, :, 0] = labels[:, :, 0]
        table = self.target.embed_tokens.weight
        with torch.autocast("cpu", dtype=torch.bfloat16):
            with torch.no_grad():
                _, features = self.target(ids, taps=self.model.taps)
            out = self.model.train_blocks(features, F.embedding(given, table), anchors)
            logits = F.linear(out[:, :, 1:], table)
        wanted = labels[:, :, 1:]
        each = F.cross_entropy(logits.float().flatten(0, 2), wanted.flatten(), reduction="none").view_as(inside)
        weight = inside * slot_weights(block)
        with torch.no_grad():
            hit = (logits.argmax(-1) == wanted).float() * inside
            length = 1 + hit.cumprod(2).sum(2).mean().item()
        return (each * weight).sum() / weight.sum(), {f"loss{block}": ((each * inside).sum() / inside.sum()).item(),
                                                      f"length{block}": length}


class SharedTarget:
    """A frozen target that keeps its last forward, for drafts that learn from the same texts."""

    def __init__(self, target, taps):
        self.target, self.taps, self.ids = target, sorted(taps), None
        self.config, self.embed_tokens = target.config, target.embed_tokens

    def __call__(self, ids, taps):
        if self.ids is None or not torch.equal(ids, self.ids):
            _, features = self.target(ids, taps=self.taps)
            self.ids, self.kept = ids, dict(zip(self.taps, features.chunk(len(self.taps), -1)))
        return None, torch.cat([self.kept[tap] for tap in taps], -1)


class SideBySide:
    """Several DraftLearners on the same batches and anchors. Nothing passes between them: averaging.train clips each
    model's gradients by themselves."""

    def __init__(self, learners):
        self.learners = learners
        self.model = torch.nn.ModuleList(learner.model for learner in learners)

    def position(self):
        return self.learners[0].position()

    def seek(self, position):
        for learner in self.learners:
            learner.seek(position)

    def loss(self, step):
        results = [learner.loss(step) for learner in self.learners]
        return sum(loss for loss, _ in results), {f"{i}.{name}": value for i, (_, values) in enumerate(results)
                                                  for name, value in values.items()}
