#!/usr/bin/env python3
"""Text of a Hugging Face model with kiln's attention, and how fast it came.

    python3 examples/transformers/generate.py MODEL [PROMPT] [--attention kiln|sdpa|eager] [--tokens 64] [--device cuda]

MODEL is a name or folder that AutoModelForCausalLM takes. On a machine without a GPU, --device cpu runs the kernels on the emulated
device: slow, and right.
"""
import argparse
import time

import torch
from transformers import AutoModelForCausalLM, AutoTokenizer

import kiln.transformers

parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
parser.add_argument("model")
parser.add_argument("prompt", nargs="?", default="Attention is")
parser.add_argument("--attention", default="kiln")
parser.add_argument("--tokens", type=int, default=64)
parser.add_argument("--device", default="cuda" if torch.cuda.is_available() else "cpu")
options = parser.parse_args()

kiln.transformers.register()
tokenizer = AutoTokenizer.from_pretrained(options.model)
model = AutoModelForCausalLM.from_pretrained(options.model, dtype=torch.bfloat16, attn_implementation=options.attention)
model = model.to(options.device).eval()
inputs = tokenizer(options.prompt, return_tensors="pt").to(options.device)


def generate(tokens):
    start = time.perf_counter()
    with torch.inference_mode():
        out = model.generate(**inputs, max_new_tokens=tokens, do_sample=False)
    return out, time.perf_counter() - start


generate(2)  # kernels are compiled, or found in the cache
out, seconds = generate(options.tokens)
print(tokenizer.decode(out[0], skip_special_tokens=True))
print(f"{(out.shape[1] - inputs.input_ids.shape[1]) / seconds:.1f} tokens/s with {options.attention}")
