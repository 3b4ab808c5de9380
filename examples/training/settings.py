"""Shapes and step counts of every stage, in one place."""
import os

from averaging import Plan

VOCABULARY = 1536  # at most; training stops when every word is one token
SEED = 1
TOKENS = 1400      # a step and process
QUICK = os.environ.get("DFLASH_TRAINING_QUICK") == "1"  # a few steps of everything, to try the pipeline


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


def small_config(vocab, special):
    return config(vocab, 256, 6, 4, 2, 640, special)


SMALL_PLAN = Plan(steps=24 if QUICK else 6000, rate=2.5e-3, warm=60, decay=1, weight_decay=0.1)
