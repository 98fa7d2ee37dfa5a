"""A second opinion: torch's FlexAttention can say ReLU attention too, by a way that shares nothing with ours.

A softmax over log(s) has the weights ``s / sum(s)``; times the sum, which is exp(logsumexp), they are s. Forward only:
on the CPU FlexAttention has no backward pass, and its compiled form gives no logsumexp, so it runs in eager mode.
"""

import pytest
import torch
from tests.attention.helpers import Inputs, draw_mask, make_inputs
from torch import Tensor
from torch.nn.attention.flex_attention import AuxRequest, flex_attention

from rela.attention.functional import attend
from rela.attention.masks import Mask
from rela.attention.naive import naive_attention
from rela.attention.spec import resolve

pytestmark = pytest.mark.filterwarnings("ignore:flex_attention called without torch.compile")


def _flex_relu_attention(inputs: Inputs, mask: Mask, threshold: Tensor) -> Tensor:
    tq, tk = inputs.query.shape[-2], inputs.key.shape[-2]
    whole = (*inputs.query.shape[:2], tq, tk)
    allowed = mask.all_allowed(tq, tk, torch.device("cpu"))
    allowed = torch.ones(whole, dtype=torch.bool) if allowed is None else allowed.expand(whole)
    bias = inputs.query.new_zeros(whole) if mask.bias is None else mask.bias.expand(whole)

    def log_of_weight(score: Tensor, b: Tensor, h: Tensor, i: Tensor, j: Tensor) -> Tensor:
        score = score + bias[b, h, i, j] - threshold[h]
        return torch.where((score > 0) & allowed[b, h, i, j], score.log(), -torch.inf)

    softmax, aux = flex_attention(*inputs, score_mod=log_of_weight, return_aux=AuxRequest(lse=True))
    assert isinstance(softmax, Tensor)
    assert aux.lse is not None
    return softmax * aux.lse.exp().unsqueeze(-1)


MASKS = {
    "none": Mask(),
    "padding": Mask(draw_mask(2, 1, 1, 7, seed=1)),
    "places": Mask(draw_mask(2, 3, 5, 7, seed=2)),
    "additive": Mask(None, torch.linspace(-2, 2, 35).view(5, 7)),
    "causal": Mask(None, None, 0),
    "bottom-right": Mask(None, None, 2),
    "all": Mask(draw_mask(5, 7, seed=3), torch.linspace(1, -1, 7), 1),
    "nothing allowed": Mask(torch.zeros(5, 7, dtype=torch.bool)),
}


@pytest.mark.parametrize("kind", MASKS)
@pytest.mark.parametrize("threshold", [0.0, 0.4, "by head"])
def test_flex_attention_agrees(kind: str, threshold: float | str) -> None:
    inputs = make_inputs(5, 7, 8, dv=6, heads=3, dtype=torch.float32).each(Tensor.detach)
    mask = MASKS[kind]
    shift = torch.tensor([0.3, 0.0, -0.2]) if isinstance(threshold, str) else torch.full((3,), threshold)
    flex = _flex_relu_attention(inputs, mask, shift)
    ours = attend(*inputs, resolve("relu"), mask, threshold=shift if isinstance(threshold, str) else threshold).output
    torch.testing.assert_close(ours, flex, rtol=1e-5, atol=1e-5)
    allowed = mask.all_allowed(5, 7, torch.device("cpu"))
    definition, _ = naive_attention(*inputs, resolve("relu"), allowed=allowed, bias=mask.bias, threshold=shift)
    torch.testing.assert_close(flex.double(), definition, rtol=1e-5, atol=1e-5)
    assert (definition.abs().max() > 0.1) == (kind != "nothing allowed")
