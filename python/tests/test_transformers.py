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
        """Prefill of padded rows and some greedy tokens, as with eager attention."""
        torch.manual_seed(1)
        model = transformers.AutoModelForCausalLM.from_config(config, dtype=torch.float16).eval()
        ids = torch.randint(3, config.vocab_size, (2, 12))
        mask = torch.ones_like(ids)
        mask[0, :4] = 0
        results = {}
        for name in ("eager", "kiln"):
            model.set_attn_implementation(name)
            with torch.inference_mode():
                logits = model(ids, attention_mask=mask).logits[mask.bool()].double()
                tokens = model.generate(ids, attention_mask=mask, max_new_tokens=3, do_sample=False, pad_token_id=0)
            results[name] = logits, tokens
        (wanted, wanted_tokens), (got, tokens) = results["eager"], results["kiln"]
        self.assertLess(((got - wanted).norm() / wanted.norm()).item(), 1e-2)
        self.assertTrue(torch.equal(tokens, wanted_tokens))

    @classmethod
    def setUpClass(cls):
        kiln.transformers.register()

    def test_llama(self):
        self.agrees(transformers.LlamaConfig(vocab_size=64, hidden_size=128, intermediate_size=128, num_hidden_layers=2, num_attention_heads=4,
                                             num_key_value_heads=2, head_dim=64))

    def test_gemma_with_windows_and_softcap(self):
        self.agrees(transformers.Gemma2Config(vocab_size=64, hidden_size=128, intermediate_size=128, num_hidden_layers=2, num_attention_heads=4,
                                              num_key_value_heads=2, head_dim=64, sliding_window=6))


if __name__ == "__main__":
    unittest.main()
