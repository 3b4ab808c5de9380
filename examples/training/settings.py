"""Shapes and step counts of every stage, in one place."""
import os

from averaging import Plan

VOCABULARY = 1536  # at most; merging stops when every word is one token
TOKENIZER_TEXTS = 6000
SEED = 1
QUICK = os.environ.get("DFLASH_TRAINING_QUICK") == "1"  # a few steps of everything, to try the pipeline
TOKENS = 500 if QUICK else 1400  # a step and process
NAME = "problems-and-records"
MEASURED = 15 if QUICK else 300  # held-out problems that are reported
CHECKED = 15 if QUICK else 300   # those of the stage check


def steps(number):
    return 4 if QUICK else number


def config(vocab, hidden, layers, heads, kv_heads, inner, special):
    """A Qwen3 config.json; special: ids of the end, mask and pad tokens."""
    return {
        "architectures": ["Qwen3ForCausalLM"], "model_type": "qwen3", "hidden_size": hidden, "intermediate_size": inner,
        "num_hidden_layers": layers, "num_attention_heads": heads, "num_key_value_heads": kv_heads, "head_dim": 64,
        "vocab_size": vocab, "rms_norm_eps": 1e-06, "rope_theta": 10000.0, "rope_scaling": None,
        "max_position_embeddings": 1024, "tie_word_embeddings": True, "attention_bias": False, "attention_dropout": 0.0,
        "hidden_act": "silu", "initializer_range": 0.02, "use_cache": True, "use_sliding_window": False,
        "sliding_window": None, "max_window_layers": layers, "layer_types": ["full_attention"] * layers,
        "torch_dtype": "bfloat16", "transformers_version": "4.57.1", "bos_token_id": special["end"],
        "eos_token_id": special["end"], "pad_token_id": special["pad"],
    }


SMALL_SHAPE = dict(hidden=256, layers=6, heads=4, kv_heads=2, inner=640)


def small_config(vocab, special):
    return config(vocab, **SMALL_SHAPE, special=special)


# The grown target starts with the rate that the small one ends with.
SMALL_PLAN = Plan(steps=steps(11000), rate=2.5e-3, warm=60, decay=1500, last=0.32, weight_decay=0.1)

# Twice the width, and four layers that begin as nothing.
ORIGIN = [0, 1, 1, 2, 2, 3, 3, 4, 4, 5]
LARGE_PLAN = Plan(steps=steps(1100), rate=8e-4, warm=10, decay=640, weight_decay=0.1)

ANSWER_PARTS, ANSWER_PART = (2, 40) if QUICK else (4, 1000)  # many at once: texts of one prompt length go together
OWN_SHARE = 0.4  # of the draft's text is written by the target, the rest by the generator

TAPS = {1: [5], 3: [1, 5, 8], 5: [1, 3, 5, 6, 8]}  # by their number
DRAFT_LAYERS, DRAFT_TAPS, BLOCK = 2, 3, 16
DRAFT_PLAN = Plan(steps=steps(2000), rate=2.0e-3, warm=40, decay=1000, weight_decay=0.05)

ABLATIONS = [(2, 1), (2, 3), (2, 5), (1, 3), (3, 3)]  # (layers, taps)
ABLATION_PLAN = Plan(steps=steps(900), rate=2.0e-3, warm=40, decay=550, weight_decay=0.05)
