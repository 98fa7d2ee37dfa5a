"""The Transformer against its definition, and what must not change its outputs."""

from typing import Any, cast

import pytest
import torch
import torch.nn.functional as F
from tests.model.naive import NaiveTransformer
from tests.model.small import random_ids, random_model, small_config
from torch import Tensor, nn

from rela.attention.multihead import MultiheadAttention
from rela.attention.spec import KINDS, PRESETS
from rela.model.config import SIZES, Attentions, ModelConfig
from rela.model.dropout import Dropout
from rela.model.transformer import Transformer, evaluating, sinusoids
from rela.text.vocabulary import BOS, EOS, PAD

MIXED = Attentions(encoder="softmax", decoder="rela-g", cross="softmax")
SOURCE_LENGTHS = [5, 1, 7, 3]
TARGET_LENGTHS = [4, 6, 1, 2]


def ids_for(config: ModelConfig, seed: int = 1) -> tuple[Tensor, Tensor]:
    torch.manual_seed(seed)
    source = random_ids(config.source_vocabulary, SOURCE_LENGTHS, last=EOS)
    return source, random_ids(config.target_vocabulary, TARGET_LENGTHS, first=BOS)


class TestDefinition:
    @pytest.mark.parametrize("tied", ["none", "target", "all"])
    @pytest.mark.parametrize(
        "attention", [Attentions.everywhere("softmax"), Attentions(), MIXED], ids=lambda a: a.label
    )
    def test_outputs_and_gradients_are_those_of_the_naive_one(self, attention: Attentions, tied: str):
        vocabulary = 31 if tied == "all" else 23
        config = small_config(source_vocabulary=vocabulary, tied=tied, attention=attention)
        model = random_model(config).double()
        naive = NaiveTransformer(model)
        source, target = ids_for(config)
        valid = target.ne(PAD)
        wanted = torch.randint(3, 31, target.shape)
        both = (model.logits(model(source, target)), naive.logits(source, target))
        losses = [F.cross_entropy(logits[valid], wanted[valid]) for logits in both]
        torch.testing.assert_close(
            model(source, target)[valid], naive.hidden(source, target)[valid], rtol=1e-9, atol=1e-9
        )
        parameters = dict(model.named_parameters())
        ours, theirs = (torch.autograd.grad(loss, list(parameters.values()), allow_unused=True) for loss in losses)
        for name, mine, naives in zip(parameters, ours, theirs, strict=True):
            assert mine is not None, name
            assert mine.abs().sum() > 0, name
            torch.testing.assert_close(mine, naives, rtol=1e-8, atol=1e-10, msg=lambda m, n=name: f"{n}: {m}")

    def test_float32_is_near_the_definition(self):
        config = small_config()
        source, target = ids_for(config)
        exact = NaiveTransformer(random_model(config).double()).hidden(source, target)
        torch.testing.assert_close(random_model(config)(source, target).double(), exact, rtol=1e-4, atol=1e-4)

    def test_attention_of_each_kind_is_the_librarys(self):
        chosen = Attentions(encoder="sparsemax", decoder="rela-i", cross={"name": "rela-g", "threshold": 0.5})
        model = Transformer(small_config(attention=chosen))
        attentions = model.attentions()
        assert [len(attentions[kind]) for kind in KINDS] == [2, 2, 2]
        for kind in KINDS:
            assert all(type(a) is MultiheadAttention and a.attention == chosen.spec(kind) for a in attentions[kind])
        modules = [module for module in model.modules() if isinstance(module, MultiheadAttention)]
        assert {id(a) for kind in KINDS for a in attentions[kind]} == {id(module) for module in modules}

    def test_attention_kinds_matter_where_they_are(self):
        """Weights of the cross-attention observed under each kind: zeros only where the map is sparse."""
        for kind in KINDS:
            chosen = Attentions(**{k: "rela-g" if k == kind else "softmax" for k in KINDS})
            model = random_model(small_config(attention=chosen))
            source, target = ids_for(model.config)
            zeros: dict[str, int] = dict.fromkeys(KINDS, 0)

            def look(_: Any, seen: Any, name: str, zeros: dict[str, int] = zeros) -> None:
                weights = seen.weights[0, :, -1]  # the last query of an unpadded row sees all keys
                zeros[name] += int((weights[..., : 4 if name == "decoder" else 5] == 0).sum())

            for name, modules in model.attentions().items():
                for module in modules:
                    module.register_observer(lambda m, s, n=name: look(m, s, n))
            model(source[:1, :5], target[:1, :4])
            assert [name for name in KINDS if zeros[name]] == [kind]


class TestCounts:
    def count(self, attention: str, **changes: Any) -> int:
        fields: dict[str, Any] = {"source_vocabulary": 27_500, "target_vocabulary": 27_500, "tied": "target"}
        fields |= {"attention": Attentions.everywhere(attention), **SIZES["base"], **changes}
        config = ModelConfig(**fields)
        with torch.device("meta"):
            return Transformer(config).num_parameters()

    def test_base_has_the_papers_size(self):
        assert self.count("softmax") == 72_298_496
        assert abs(self.count("softmax") / 1e6 - 72.31) < 0.02

    def test_extra_parameters_of_rela(self):
        assert self.count("rela-g") - self.count("softmax") == 18_432
        assert self.count("rela-i") - self.count("softmax") == 9_216
        assert self.count("sparsemax") == self.count("softmax")

    def test_tying(self):
        table = 27_500 * 512
        assert self.count("softmax", tied="none") - self.count("softmax") == table
        assert self.count("softmax") - self.count("softmax", tied="all") == table

    @pytest.mark.parametrize("size", SIZES)
    def test_sizes_by_name(self, size: str):
        with torch.device("meta"):
            model = Transformer(small_config("rela-g", **SIZES[size]))
        assert (model.config.dim, len(model.encoder)) == (SIZES[size]["dim"], SIZES[size]["encoder_layers"])

    def test_any_other_size(self):
        config = small_config(dim=6, num_heads=1, encoder_layers=1, decoder_layers=3, ffn_dim=1)
        source, target = ids_for(config)
        assert Transformer(config)(source, target).shape == (4, 6, 6)


@pytest.mark.parametrize("attention", ["softmax", "rela-g", "entmax15"])
class TestInvariance:
    def test_a_sentence_alone_is_as_in_a_padded_batch(self, attention: str):
        model = random_model(small_config(attention)).double()
        source, target = ids_for(model.config)
        together = model(source, target)
        for row, (s, t) in enumerate(zip(SOURCE_LENGTHS, TARGET_LENGTHS, strict=True)):
            alone = model(source[row : row + 1, :s], target[row : row + 1, :t])
            torch.testing.assert_close(alone[0], together[row, :t], rtol=1e-9, atol=1e-9)

    def test_the_future_does_not_matter(self, attention: str):
        model = random_model(small_config(attention)).double()
        source, target = ids_for(model.config)
        changed = target.clone()
        changed[:, 3:] = torch.randint(3, 31, changed[:, 3:].shape)
        before, after = model(source, target), model(source, changed)
        torch.testing.assert_close(before[:, :3], after[:, :3], rtol=1e-12, atol=1e-12)
        assert not torch.allclose(before[:, 3:], after[:, 3:])

    def test_order_matters(self, attention: str):
        model = random_model(small_config(attention)).double()
        source, target = ids_for(model.config)
        turned = source[2:3].clone()
        turned[:, :-1] = turned[:, :-1].flip(1)
        assert not torch.allclose(model(source[2:3], target[:1]), model(turned, target[:1]))


class TestPositions:
    def test_sinusoids(self):
        table = sinusoids(300, 8)
        assert table.shape == (300, 8)
        torch.testing.assert_close(table[0], torch.tensor([0.0] * 4 + [1.0] * 4))
        torch.testing.assert_close(table[7, 0].item(), torch.tensor(7.0).sin().item())
        torch.testing.assert_close(table[299, 3].item(), torch.tensor(299 / 10_000).sin().item())

    @pytest.mark.parametrize("length", [255, 256, 257, 700])
    def test_the_table_grows(self, length: int):
        model = random_model(small_config(encoder_layers=1, decoder_layers=1)).double()
        torch.manual_seed(0)
        source = random_ids(31, [3], last=EOS)
        target = random_ids(31, [length], first=BOS)
        fresh, warmed = model(source, target), model(source[:, :2], target[:, :9])
        assert warmed.shape[1] == 9
        torch.testing.assert_close(fresh[:, -2:], NaiveTransformer(model).hidden(source, target)[:, -2:])
        torch.testing.assert_close(model(source, target), fresh)

    def test_steps_across_the_border(self):
        model = random_model(small_config(encoder_layers=1, decoder_layers=1)).double()
        torch.manual_seed(0)
        source, target = random_ids(31, [3], last=EOS), random_ids(31, [260], first=BOS)
        state, whole = model.start(source), model(source, target)
        for place in range(260):
            hidden, state = model.step(target[:, place], state)
            assert (hidden - whole[:, place]).abs().max() < 1e-9

    def test_a_table_that_grew_while_translating_serves_training(self):
        model = random_model(small_config())
        source, target = ids_for(model.config)
        with torch.inference_mode():
            model(source, random_ids(31, [300] * 4))
        table = dict(model.named_buffers())["_positions"]
        assert table.shape == (512, 16)
        assert not table.is_inference()
        model.train()(source, target).sum().backward()
        table.add_(0)

    def test_the_table_follows_the_models_type(self):
        model = random_model(small_config()).double()
        source, target = ids_for(model.config)
        assert model(source, target).dtype == torch.float64
        assert model.float()(source, target).dtype == torch.float32


class TestSteps:
    @pytest.mark.parametrize("attention", PRESETS)
    def test_steps_equal_one_pass(self, attention: str):
        model = random_model(small_config(attention)).double()
        source, _ = ids_for(model.config)
        target = random_ids(31, [6, 6, 6, 6], first=BOS)
        whole = model(source, target)
        state = model.start(source)
        for place in range(6):
            hidden, state = model.step(target[:, place], state)
            assert state.length == place + 1
            torch.testing.assert_close(hidden, whole[:, place], rtol=1e-9, atol=1e-9)

    @pytest.mark.parametrize("attention", ["softmax", "rela-g"])
    def test_several_rows_share_a_memory(self, attention: str):
        model = random_model(small_config(attention)).double()
        source, _ = ids_for(model.config)
        beams = random_ids(31, [5] * 12, first=BOS)  # three a sentence
        whole = model(source.repeat_interleave(3, 0), beams)
        state = model.start(source)
        for place in range(5):
            hidden, state = model.step(beams[:, place], state)
            torch.testing.assert_close(hidden, whole[:, place], rtol=1e-9, atol=1e-9)

    def test_rows_are_exchanged_and_sentences_leave(self):
        model = random_model(small_config()).double()
        source, _ = ids_for(model.config)
        beams = random_ids(31, [6] * 8, first=BOS)  # two a sentence
        state = model.start(source)
        for place in range(2):
            _, state = model.step(beams[:, place], state)
        order = torch.tensor([1, 0, 3, 3, 4, 5, 7, 6])
        state, beams = state.select_past(order), beams[order]
        _, state = model.step(beams[:, 2], state)
        kept, rows = torch.tensor([0, 2, 3]), torch.tensor([0, 1, 4, 5, 6, 7])
        state, beams = state.select(kept, rows), beams[rows]
        for place in range(3, 6):
            hidden, state = model.step(beams[:, place], state)
            whole = model(source[kept].repeat_interleave(2, 0), beams)
            torch.testing.assert_close(hidden, whole[:, place], rtol=1e-9, atol=1e-9)


class TestWeights:
    @pytest.mark.parametrize("tied", ["none", "target"])
    def test_the_same_seed_gives_the_same_weights(self, tied: str):
        """Also when both embeddings lie at other addresses: nothing may depend on those."""
        config, kept, first = small_config(tied=tied), list[Any](), dict[str, Tensor]()
        for attempt in range(24):
            torch.manual_seed(3)
            model = Transformer(config)
            kept.append((model, [object() for _ in range(attempt * 7)]))
            state: dict[str, Tensor] = model.state_dict()
            first = first or state
            assert all(torch.equal(state[name], first[name]) for name in first)

    @pytest.mark.parametrize(("tied", "num_tables"), [("none", 3), ("target", 2), ("all", 1)])
    def test_tied_tables_are_one_tensor(self, tied: str, num_tables: int):
        model = Transformer(small_config(tied=tied))
        tables = (model.source_embedding.weight, model.target_embedding.weight, model.projection)
        assert len({table.data_ptr() for table in tables}) == num_tables
        assert tables[0][PAD].abs().sum() == tables[1][PAD].abs().sum() == 0
        assert model.projection.shape == (31, 16)

    def test_a_state_dict_goes_from_model_to_model(self):
        model, other = random_model(small_config()), Transformer(small_config()).eval()
        other.load_state_dict(model.state_dict())
        source, target = ids_for(model.config)
        assert torch.equal(other(source, target), model(source, target))
        assert not any("positions" in name for name in model.state_dict())

    def test_starting_scale(self):
        model = Transformer(small_config(dim=64, num_heads=4))
        assert model.target_embedding.weight[3:].std().item() == pytest.approx(1 / 8, rel=0.1)
        norm = cast("nn.LayerNorm", model.get_submodule("encoder.0.feed_forward_norm"))
        assert (norm.weight == 1).all()
        assert (norm.bias == 0).all()


class TestDropout:
    def test_active_in_training_only(self):
        model = random_model(small_config(dropout=0.3, attention_dropout=0.3))
        source, target = ids_for(model.config)
        assert torch.equal(model(source, target), model(source, target))
        model.train()
        assert not torch.equal(model(source, target), model(source, target))

    @pytest.mark.parametrize("name", ["dropout", "attention_dropout"])
    def test_each_has_its_own_rate(self, name: str):
        """With one rate at zero, nothing but the modules of the other draws random numbers."""
        model = random_model(small_config("rela-g", **{"dropout": 0.0, "attention_dropout": 0.0, name: 0.5})).train()
        source, target = ids_for(model.config)
        assert not torch.equal(model(source, target), model(source, target))
        for module in model.modules():
            if isinstance(module, Dropout if name == "dropout" else MultiheadAttention):
                module.eval()
        assert torch.equal(model(source, target), model(source, target))

    def test_evaluating_gives_the_mode_back(self):
        model = Transformer(small_config()).train()
        with evaluating(model):
            assert not any(module.training for module in model.modules())
        assert all(module.training for module in model.modules())
        with pytest.raises(KeyError), evaluating(model):
            raise KeyError
        assert model.training
        with evaluating(model.eval()):
            pass
        assert not model.training
