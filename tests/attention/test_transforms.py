"""The module under torch.func, forward mode, autocast, checkpointing, copies and pickles."""

import copy
import io
import pickle
from collections.abc import Callable

import pytest
import torch
from tests.attention.module_helpers import (
    ALL_PRESETS,
    EMBED,
    HEADS,
    LEARNED_THRESHOLD,
    assert_same,
    build,
    gradients,
    inputs,
    padding,
    randomise,
    weighted_sum,
)
from torch import Tensor, nn
from torch.autograd import forward_ad
from torch.func import functional_call, grad, jacrev, jvp, vmap
from torch.utils.checkpoint import checkpoint

import rela

B, T = 3, 5
PADDING = padding(5, 3, 0)
every_attention = pytest.mark.parametrize("attention", [*ALL_PRESETS, LEARNED_THRESHOLD], ids=str)
with_and_without_weights = pytest.mark.parametrize("need_weights", [True, False])
Parameters = dict[str, Tensor]


def as_function(
    module: rela.MultiheadAttention, need_weights: bool, pad: Tensor | None = PADDING
) -> Callable[[Parameters, Tensor], Tensor]:
    """The module's output as a pure function of its parameters and its input."""

    def run(parameters: Parameters, x: Tensor) -> Tensor:
        return functional_call(module, parameters, (x, x, x, pad), {"need_weights": need_weights})[0]

    return run


def detached(module: nn.Module) -> Parameters:
    return {name: p.detach().clone() for name, p in module.named_parameters()}


def close(actual: Tensor, expected: Tensor) -> None:
    torch.testing.assert_close(actual, expected, rtol=1e-8, atol=1e-9)


@pytest.mark.filterwarnings("ignore:`torch.jit:DeprecationWarning")  # from torch's own forward mode
class TestFunc:
    @every_attention
    @with_and_without_weights
    def test_functional_call(self, attention: str, need_weights: bool) -> None:
        module, other = build(attention), build(attention)
        randomise(other, seed=50)
        x = inputs(B, T, EMBED)
        got = as_function(module, need_weights)(detached(other), x)
        close(got, other(x, x, x, PADDING, need_weights=need_weights)[0])

    @every_attention
    @with_and_without_weights
    def test_grad(self, attention: str, need_weights: bool) -> None:
        module = build(attention)
        x = inputs(B, T, EMBED)
        run = as_function(module, need_weights)
        got = grad(lambda p: weighted_sum(run(p, x)))(detached(module))  # pyright: ignore[reportUnknownLambdaType]
        expected = gradients(module, weighted_sum(module(x, x, x, PADDING, need_weights=need_weights)[0]))
        assert_same(got, expected, 1e-8)

    @every_attention
    @with_and_without_weights
    def test_vmap_over_inputs(self, attention: str, need_weights: bool) -> None:
        module = build(attention)
        run, parameters = as_function(module, need_weights), detached(module)
        x = inputs(4, B, T, EMBED)
        got = vmap(run, in_dims=(None, 0))(parameters, x)
        close(got, torch.stack([run(parameters, row) for row in x]))

    @every_attention
    def test_vmap_over_parameters(self, attention: str) -> None:
        # An ensemble: two sets of parameters, one module.
        module, other = build(attention), build(attention)
        randomise(other, seed=50)
        both = [detached(module), detached(other)]
        stacked = {name: torch.stack([p[name] for p in both]) for name in both[0]}
        run, x = as_function(module, False), inputs(B, T, EMBED)
        got = vmap(run, in_dims=(0, None))(stacked, x)
        close(got, torch.stack([run(p, x) for p in both]))

    @every_attention
    def test_gradient_of_each_example(self, attention: str) -> None:
        module = build(attention)
        run, parameters = as_function(module, False, None), detached(module)
        x = inputs(4, T, EMBED)
        each = vmap(grad(lambda p, row: run(p, row).square().sum()), in_dims=(None, 0))(parameters, x)  # pyright: ignore[reportUnknownLambdaType]
        total = gradients(module, module(x, x, x, need_weights=False)[0].square().sum())
        assert_same({name: g.sum(0) for name, g in each.items()}, total, 1e-8)

    @every_attention
    @with_and_without_weights
    def test_jvp(self, attention: str, need_weights: bool) -> None:
        module = build(attention)
        run, parameters = as_function(module, need_weights), detached(module)
        x, direction = inputs(B, T, EMBED), inputs(B, T, EMBED, seed=1)
        output, got = jvp(lambda t: run(parameters, t), (x,), (direction,))  # pyright: ignore[reportAssignmentType, reportUnknownLambdaType]
        close(output, run(parameters, x))
        close(got, by_differences(lambda t: run(parameters, t), x, direction))

    @every_attention
    @with_and_without_weights
    def test_forward_mode(self, attention: str, need_weights: bool) -> None:
        module = build(attention)
        x, direction = inputs(B, T, EMBED), inputs(B, T, EMBED, seed=1)
        with forward_ad.dual_level():
            dual = forward_ad.make_dual(x, direction)
            output, _ = module(dual, dual, dual, PADDING, need_weights=need_weights)
            got = forward_ad.unpack_dual(output).tangent
        assert got is not None
        close(got, by_differences(lambda t: module(t, t, t, PADDING)[0].detach(), x, direction))

    def test_jacobian(self) -> None:
        module = build("rela-g")
        run, parameters = as_function(module, False, None), detached(module)
        x = inputs(2, EMBED)
        got = jacrev(lambda t: run(parameters, t))(x)  # pyright: ignore[reportUnknownLambdaType]
        assert isinstance(got, Tensor)
        close(got, torch.autograd.functional.jacobian(lambda t: run(parameters, t), x))  # pyright: ignore[reportUnknownLambdaType]

    @every_attention
    @with_and_without_weights
    def test_second_derivatives(self, attention: str, need_weights: bool) -> None:
        if attention == "softmax" and not need_weights:
            pytest.skip("torch's fused softmax has no second derivative: see the next test")
        module = build(attention)
        direction = inputs(B, T, EMBED, seed=1)

        def first(x: Tensor) -> Tensor:
            x = x.detach().requires_grad_()
            loss = weighted_sum(module(x, x, x, PADDING, need_weights=need_weights)[0])
            return torch.autograd.grad(loss, x)[0]

        x = inputs(B, T, EMBED).requires_grad_()
        loss = weighted_sum(module(x, x, x, PADDING, need_weights=need_weights)[0])
        (once,) = torch.autograd.grad(loss, x, create_graph=True)
        (twice,) = torch.autograd.grad((once * direction).sum(), x)  # the Hessian is symmetric
        torch.testing.assert_close(twice, by_differences(first, x.detach(), direction), rtol=1e-5, atol=1e-6)

    def test_second_derivatives_of_softmax_as_in_torch(self) -> None:
        for module in (nn.MultiheadAttention(EMBED, HEADS), rela.MultiheadAttention(EMBED, HEADS, attention="softmax")):
            x = inputs(T, B, EMBED, dtype=torch.float32).requires_grad_()
            output, _ = module(x, x, x, need_weights=False)
            (once,) = torch.autograd.grad(output.square().sum(), x, create_graph=True)
            with pytest.raises(RuntimeError, match="not implemented"):
                once.sum().backward()


def by_differences(run: Callable[[Tensor], Tensor], x: Tensor, direction: Tensor, step: float = 1e-4) -> Tensor:
    """The derivative of ``run`` along a direction, by differences of fourth order: good to about 1e-10."""
    near = run(x + step * direction) - run(x - step * direction)
    far = run(x + 2 * step * direction) - run(x - 2 * step * direction)
    return ((8 * near - far) / (12 * step)).detach()


class TestAutocast:
    @every_attention
    @pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16])
    def test_dtypes_are_torchs(self, attention: str, dtype: torch.dtype) -> None:
        ours = build(attention, dtype=torch.float32, add_bias_kv=True)
        theirs = nn.MultiheadAttention(EMBED, HEADS, batch_first=True, add_bias_kv=True)
        x = inputs(B, T, EMBED, dtype=torch.float32).requires_grad_()
        for need_weights in (True, False):
            with torch.autocast("cpu", dtype):
                expected = theirs(x, x, x, PADDING, need_weights=need_weights)
                got = ours(x, x, x, PADDING, need_weights=need_weights)
            assert [t.dtype for t in got if t is not None] == [t.dtype for t in expected if t is not None]
            found = gradients(ours, got[0].float().square().mean(), x)
            assert all(g is not None and g.isfinite().all() for g in found.values())
            assert {g.dtype for g in found.values() if g is not None} == {torch.float32}

    @every_attention
    @pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16])
    def test_close_to_full_precision(self, attention: str, dtype: torch.dtype) -> None:
        module = build(attention, dtype=torch.float32)
        x = inputs(B, T, EMBED, dtype=torch.float32)
        expected, _ = module(x, x, x, PADDING)
        with torch.autocast("cpu", dtype):
            got, _ = module(x, x, x, PADDING, need_weights=False)
        # The sparse maps may lose or gain a key by rounding, so the bound is on the mean.
        assert (got.float() - expected).abs().mean() < 8 * torch.finfo(dtype).eps * expected.abs().mean()

    def test_steps(self) -> None:
        module = build("rela-g", dtype=torch.float32)
        x = inputs(B, T, EMBED, dtype=torch.float32)
        with torch.autocast("cpu", torch.bfloat16):
            _, _, cache = module.step(x[:, :3])
            output, _, cache = module.step(x[:, 3:], cache)
        assert output.dtype == cache.keys.dtype == torch.bfloat16

    def test_input_already_in_half_precision(self) -> None:
        module = build("rela-g", dtype=torch.float32)
        x = inputs(B, T, EMBED, dtype=torch.bfloat16)
        with torch.autocast("cpu", torch.bfloat16):
            assert module(x, x, x)[0].dtype == torch.bfloat16

    def test_converted_transformer(self) -> None:
        model = rela.convert(nn.Transformer(EMBED, 2, 1, 1, 16, dropout=0.0, batch_first=True), "rela-g").eval()
        x = inputs(B, T, EMBED, dtype=torch.float32)
        with torch.no_grad(), torch.autocast("cpu", torch.bfloat16):
            assert model(x, x, src_key_padding_mask=padding(5, 3, 1)).isfinite().all()


class TestCopies:
    @every_attention
    def test_deepcopy(self, attention: str) -> None:
        module = build(attention)
        x = inputs(B, T, EMBED)
        twin = copy.deepcopy(module)
        close(twin(x, x, x)[0], module(x, x, x)[0])
        assert not {id(p) for p in twin.parameters()} & {id(p) for p in module.parameters()}
        randomise(twin, seed=50)
        assert (twin(x, x, x)[0] - module(x, x, x)[0]).abs().max() > 1e-3

    @every_attention
    def test_pickle(self, attention: str) -> None:
        module = build(attention)
        x = inputs(B, T, EMBED)
        twin = pickle.loads(pickle.dumps(module))
        assert twin.attention == module.attention
        close(twin(x, x, x)[0], module(x, x, x)[0])

    @every_attention
    def test_save_and_load_weights_only(self, attention: str) -> None:
        module = build(attention)
        file = io.BytesIO()
        torch.save(module.state_dict(), file)
        file.seek(0)
        twin = build(attention)
        randomise(twin, seed=50)
        twin.load_state_dict(torch.load(file, weights_only=True))
        assert_same(twin.state_dict(), module.state_dict(), 0.0)

    def test_a_copys_observers_are_its_own(self) -> None:
        module = build("rela-g")
        calls: list[nn.Module] = []
        module.register_observer(lambda who, _: calls.append(who))
        twin = copy.deepcopy(module)
        handle = twin.register_observer(lambda who, _: calls.append(who))
        x = inputs(B, T, EMBED)
        module(x, x, x)
        assert calls == [module]
        handle.remove()

    def test_to_another_dtype(self) -> None:
        module = build("rela-g").to(torch.float32)
        x = inputs(B, T, EMBED, dtype=torch.float32)
        assert module(x, x, x)[0].dtype == torch.float32
        assert {p.dtype for p in module.parameters()} == {torch.float32}

    def test_on_meta_then_for_real(self) -> None:
        module = rela.MultiheadAttention(EMBED, HEADS, device="meta", attention=LEARNED_THRESHOLD)
        assert {p.device.type for p in module.parameters()} == {"meta"}
        module.to_empty(device="cpu").reset_parameters()
        x = inputs(T, B, EMBED, dtype=torch.float32)
        assert module(x, x, x)[0].isfinite().all()


class TestTraining:
    @pytest.mark.parametrize("attention", ["softmax", "relu", "rela-g", "entmax15"])
    @pytest.mark.parametrize("dropout", [0.0, 0.3])
    @with_and_without_weights
    def test_checkpointing(self, attention: str, dropout: float, need_weights: bool) -> None:
        # The recomputed forward pass must drop the same weights.
        module = build(attention, dropout=dropout)
        x = inputs(B, T, EMBED).requires_grad_()

        def run(t: Tensor) -> Tensor:
            return module(t, t, t, need_weights=need_weights)[0]

        torch.manual_seed(3)
        expected = gradients(module, weighted_sum(run(x)), x)
        torch.manual_seed(3)
        saved = checkpoint(run, x, use_reentrant=False)
        assert isinstance(saved, Tensor)
        assert_same(gradients(module, weighted_sum(saved), x), expected, 1e-12)

    @pytest.mark.parametrize("attention", ["softmax", "relu", "rela-g"])
    def test_dropout_follows_the_seed(self, attention: str) -> None:
        module = build(attention, dropout=0.4)
        x = inputs(B, T, EMBED)
        outputs = []
        for seed in (1, 1, 2):
            torch.manual_seed(seed)
            outputs.append(module(x, x, x, need_weights=False)[0])
        assert torch.equal(outputs[0], outputs[1])
        assert not torch.equal(outputs[0], outputs[2])

    @every_attention
    def test_a_step_of_training_lowers_the_loss(self, attention: str) -> None:
        module = build(attention)
        x, goal = inputs(B, T, EMBED), inputs(B, T, EMBED, seed=1)
        optimizer = torch.optim.SGD(module.parameters(), lr=1e-4)
        losses = []
        for _ in range(5):
            loss = (module(x, x, x)[0] - goal).square().mean()
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            losses.append(loss.item())
        assert losses == sorted(losses, reverse=True)
        assert losses[-1] < losses[0]
