#!/usr/bin/env python3
"""Models of Hugging Face transformers with kiln's attention beside the library's own: tokens checked, time to first token, tokens/s.

    PYTHONPATH=build/python python3 bench/hugging_face.py [--models llama,qwen3,gemma2,gpt_oss] [--prompt 4096] [--batch 4] [--tokens 64]

Needs PyTorch, transformers and an NVIDIA GPU. Weights are random, shapes those of the models with fewer layers (--layers). Contenders are
measured in turns, medians of --rounds. The check: greedy tokens are those of eager attention in bfloat16, or part where
the float32 logits of the two tokens differ by less than what bfloat16 rounding makes of logits in eager attention, too.
"""
import argparse
import statistics
import time

import torch
import transformers

import kiln.transformers


def shapes(layers):
    common = dict(num_hidden_layers=layers, vocab_size=32768, max_position_embeddings=65536)
    wide = dict(hidden_size=4096, num_attention_heads=32, num_key_value_heads=8, head_dim=128)
    return {
        "llama": lambda: transformers.LlamaConfig(**common, **wide, intermediate_size=14336),
        "qwen3": lambda: transformers.Qwen3Config(**common, **wide, intermediate_size=12288),
        "gemma2": lambda: transformers.Gemma2Config(**common, hidden_size=3584, num_attention_heads=16, num_key_value_heads=8, head_dim=256,
                                                    intermediate_size=14336, sliding_window=4096),
        "gpt_oss": lambda: transformers.GptOssConfig(**common, hidden_size=2880, num_attention_heads=64, num_key_value_heads=8, head_dim=64,
                                                     intermediate_size=2880, num_local_experts=8, num_experts_per_tok=4, sliding_window=128),
    }


def generate(model, ids, tokens, static):
    keywords = dict(cache_implementation="static") if static else {}
    return model.generate(ids, max_new_tokens=tokens, min_new_tokens=tokens, do_sample=False, pad_token_id=0, **keywords)


def seconds(call):
    torch.cuda.synchronize()
    start = time.perf_counter()
    call()
    torch.cuda.synchronize()
    return time.perf_counter() - start


def parted(model, ids, wanted, got):
    """Where got leaves wanted by more than bfloat16 explains: the float32 logits of the two tokens differ by more than twice what eager
    attention in bfloat16 is off by in any logit of that step. [(row, step, gap, what is explained)]."""
    worse = []
    for row in range(ids.shape[0]):
        first = next((i for i in range(ids.shape[1], wanted.shape[1]) if wanted[row, i] != got[row, i]), None)
        if first is None:
            continue
        rounded = model(wanted[row : row + 1, :first]).logits[0, -1].float()
        exact = model.float()(wanted[row : row + 1, :first]).logits[0, -1]
        model.to(torch.bfloat16)
        gap, noise = (exact[wanted[row, first]] - exact[got[row, first]]).abs().item(), 2 * (exact - rounded).abs().max().item()
        if gap > noise:
            worse.append((row, first - ids.shape[1], gap, noise))
    return worse


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--models", default="llama,qwen3,gemma2,gpt_oss")
    parser.add_argument("--attention", default="kiln,sdpa,flash_attention_3")
    parser.add_argument("--layers", type=int, default=8)
    parser.add_argument("--prompt", type=int, default=4096)
    parser.add_argument("--batch", type=int, default=4)
    parser.add_argument("--tokens", type=int, default=64)
    parser.add_argument("--rounds", type=int, default=3)
    options = parser.parse_args()
    kiln.transformers.register()
    torch.set_default_device("cuda")
    print(f"{torch.cuda.get_device_name()}, torch {torch.__version__}, transformers {transformers.__version__}; batch {options.batch}, prompt "
          f"{options.prompt}, {options.tokens} tokens, {options.layers} layers")
    for name in options.models.split(","):
        torch.manual_seed(1)
        model = transformers.AutoModelForCausalLM.from_config(shapes(options.layers)[name](), dtype=torch.bfloat16).eval()
        ids = torch.randint(3, 32768, (options.batch, options.prompt))
        short = ids[:2, :500]
        with torch.inference_mode():
            model.set_attn_implementation("eager")
            wanted = generate(model, short, 16, False)
            usable, notes = [], []
            for attention in options.attention.split(","):
                try:
                    model.set_attn_implementation(attention)
                    got = generate(model, short, 16, False)
                except Exception as error:  # noqa: BLE001: a contender that this machine or this model lacks
                    print(f"{name:8} {attention}: {str(error).splitlines()[0][:110]}")
                    continue
                same = (got == wanted)[:, 500:].float().mean().item()
                model.set_attn_implementation("eager")
                bad = parted(model, short, wanted, got)
                notes.append(f"{attention} {100 * same:.0f} % of tokens as eager{', WRONG ' + str(bad) if bad else ', the rest explained by rounding'}")
                usable.append(attention)
            print(f"{name:8} check: {'; '.join(notes)}", flush=True)
            for static in (False, True):
                first, rates = {a: [] for a in usable}, {a: [] for a in usable}
                # A static cache makes transformers compile the model: one contender after the other, each compiled anew.
                turns = [usable] * (options.rounds + 1) if not static else [[a] for a in usable for _ in range(options.rounds + 1)]
                before, failed = None, set()
                for turn in turns:
                    for attention in turn:
                        if attention in failed:
                            continue
                        if static and attention != before:
                            torch._dynamo.reset()
                        before = attention
                        model.set_attn_implementation(attention)
                        try:
                            one = seconds(lambda: generate(model, ids, 1, static))
                            more = seconds(lambda: generate(model, ids, options.tokens, static))
                        except Exception as error:  # noqa: BLE001: a contender that cannot be compiled, say
                            print(f"{name:8} {'static' if static else 'dynamic':8} {attention}: {repr(error)[:110]}", flush=True)
                            failed.add(attention)
                            continue
                        first[attention].append(one)
                        rates[attention].append(options.batch * (options.tokens - 1) / (more - one))
                for attention in usable:
                    if attention in failed:
                        continue
                    print(f"{name:8} {'static' if static else 'dynamic':8} {attention:18} first token "
                          f"{1e3 * statistics.median(first[attention][1:]):7.1f} ms   {statistics.median(rates[attention][1:]):8.1f} tokens/s", flush=True)
        del model
        torch.cuda.empty_cache()


if __name__ == "__main__":
    main()
