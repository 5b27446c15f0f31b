"""kiln.transformers with small models of random weights, on CPU and the emulated device."""
import unittest

try:
    import torch
    import transformers
except ImportError:
    transformers = None
if transformers is not None:
    import kiln.transformers


@unittest.skipIf(transformers is None, "no transformers")
class Transformers(unittest.TestCase):
    def agrees(self, config):
        """Prefill and some greedy tokens, of rows with padding and without it, over dynamic and static caches, as with eager attention."""
        torch.manual_seed(1)
        model = transformers.AutoModelForCausalLM.from_config(config, dtype=torch.float16).eval()
        ids = torch.randint(3, config.vocab_size, (2, 12))
        padded = torch.ones_like(ids)
        padded[0, :4] = 0
        for mask, cache in ((padded, None), (torch.ones_like(ids), None), (torch.ones_like(ids), "static"), (padded, "static")):
            with self.subTest(padded=mask is padded, cache=cache):
                self.agrees_with(model, ids, mask, dict(cache_implementation=cache) if cache else {})

    def agrees_with(self, model, ids, mask, keywords):
        results = {}
        for name in ("eager", "kiln"):
            model.set_attn_implementation(name)
            with torch.inference_mode():
                logits = model(ids, attention_mask=mask).logits[mask.bool()].double()
                out = model.generate(ids, attention_mask=mask, max_new_tokens=4, do_sample=False, pad_token_id=0, output_logits=True,
                                     return_dict_in_generate=True, **keywords)
            results[name] = logits, torch.stack(out.logits, 1).double(), out.sequences
        for got, wanted in zip(results["kiln"][:2], results["eager"][:2]):
            self.assertLess(((got - wanted).norm() / wanted.norm()).item(), 1e-2)
        self.assertTrue(torch.equal(results["kiln"][2], results["eager"][2]))

    def batches_agree(self, config):
        """Continuous batching: prompts that share steps and are prefilled in chunks give the tokens of eager attention."""
        torch.manual_seed(1)
        model = transformers.AutoModelForCausalLM.from_config(config, dtype=torch.float16).eval()
        prompts = [torch.randint(3, config.vocab_size, (n,)).tolist() for n in (5, 12, 1, 20)]
        tokens = []
        # Since 5.23 names have no prefix, and steps of one token a sequence may come with a block table.
        plain = tuple(map(int, transformers.__version__.split(".")[:2])) >= (5, 23)
        runs = [("paged|eager", {}), ("kiln" if plain else "paged|kiln", {})]
        if plain and not getattr(config, "sliding_window", None):
            runs.append(("kiln", {"max_blocks_per_request": 4}))
        for name, more in runs:
            model.set_attn_implementation(name)
            out = model.generate_batch(
                inputs=prompts,
                generation_config=transformers.GenerationConfig(max_new_tokens=4, do_sample=False, eos_token_id=-1, pad_token_id=0),
                continuous_batching_config=transformers.ContinuousBatchingConfig(block_size=16, num_blocks=64, max_batch_tokens=16, **more))
            tokens.append([one.generated_tokens for one in out.values()])
        self.assertEqual(len(tokens[0]), len(prompts))
        self.assertTrue(all(len(one) == 4 for one in tokens[0]))
        for other in tokens[1:]:
            self.assertEqual(other, tokens[0])

    @classmethod
    def setUpClass(cls):
        kiln.transformers.register()

    def test_llama(self):
        self.agrees(transformers.LlamaConfig(vocab_size=64, hidden_size=128, intermediate_size=128, num_hidden_layers=2, num_attention_heads=4,
                                             num_key_value_heads=2, head_dim=64))

    def test_gemma_with_windows_and_softcap(self):
        self.agrees(transformers.Gemma2Config(vocab_size=64, hidden_size=128, intermediate_size=128, num_hidden_layers=2, num_attention_heads=4,
                                              num_key_value_heads=2, head_dim=64, sliding_window=6))

    def test_gpt_oss_with_sinks_and_windows(self):
        self.agrees(transformers.GptOssConfig(vocab_size=64, hidden_size=128, intermediate_size=128, num_hidden_layers=2, num_attention_heads=4,
                                              num_key_value_heads=2, head_dim=64, num_local_experts=4, num_experts_per_tok=2, sliding_window=8,
                                              layer_types=["sliding_attention", "full_attention"]))

    def test_continuous_batching(self):
        common = dict(vocab_size=64, hidden_size=128, intermediate_size=128, num_hidden_layers=2, num_attention_heads=4, num_key_value_heads=2,
                      head_dim=64)
        if not hasattr(transformers, "ContinuousBatchingConfig"):
            self.skipTest("this transformers has no continuous batching")
        self.batches_agree(transformers.Qwen3Config(**common))
        self.batches_agree(transformers.GptOssConfig(**common, num_local_experts=4, num_experts_per_tok=2, sliding_window=8,
                                                     layer_types=["sliding_attention", "full_attention"]))


if __name__ == "__main__":
    unittest.main()
