"""A pipeline that translates: transformers 5 has none any more."""

from __future__ import annotations

from typing import Any, Final

import torch
from transformers import AutoModelForSeq2SeqLM, Pipeline
from transformers.pipelines import PIPELINE_REGISTRY

TASK: Final = "rela-translation"
_EMPTY: Final = "empty"


class TranslationPipeline(Pipeline):
    """Texts to ``{"translation_text": ...}``. What `generate` takes may be said when it is made, or in a call.

    >>> translate = pipeline("rela-translation", model="model-dir")
    >>> translate("A dog runs.", num_beams=4)
    [{'translation_text': 'Ein Hund läuft.'}]
    """

    _load_processor = False
    _load_image_processor = False
    _load_feature_extractor = False
    _load_tokenizer = True

    def _sanitize_parameters(self, **options: Any) -> tuple[dict[str, Any], dict[str, Any], dict[str, Any]]:
        return {}, options, {}

    def preprocess(self, input_: str, **_: Any) -> dict[str, Any]:
        """Text to ids, and whether there is nothing to translate; texts of a batch have the same keys."""
        if not isinstance(input_, str):  # pyright: ignore[reportUnnecessaryIsInstance] (callers may be untyped)
            raise TypeError(f"expected a text or a list of texts, got {type(input_).__name__}")
        assert self.tokenizer is not None
        is_empty = not input_.strip()
        found = self.tokenizer("" if is_empty else input_, return_tensors="pt")
        return {**found, _EMPTY: torch.tensor([is_empty])}

    def _forward(self, input_tensors: dict[str, Any], **generate: Any) -> Any:
        """Ids ``[texts, translations of each, longest]``."""
        empty = input_tensors.pop(_EMPTY)
        rows = {name: tensor[~empty] for name, tensor in input_tensors.items()}
        if bool(empty.all()):
            number = generate.get("num_return_sequences") or 1
            return {"ids": torch.empty(len(empty), number, 0, dtype=torch.long)}
        found = self.model.generate(**rows, **generate)  # pyright: ignore[reportCallIssue]
        found = found.unflatten(0, (int((~empty).sum()), -1))
        ids = found.new_full((len(empty), *found.shape[1:]), self.model.config.pad_token_id)
        ids[~empty] = found
        return {"ids": ids}

    def postprocess(self, model_outputs: dict[str, Any], **_: Any) -> list[dict[str, str]]:
        """Ids to text; several, if several were asked for."""
        assert self.tokenizer is not None
        texts = self.tokenizer.batch_decode(model_outputs["ids"].flatten(0, 1), skip_special_tokens=True)
        return [{"translation_text": text} for text in texts]


def register_pipeline() -> None:
    """By the name `rela-translation`; `translation` is one that transformers refuses."""
    if TASK not in PIPELINE_REGISTRY.get_supported_tasks():
        PIPELINE_REGISTRY.register_pipeline(
            TASK, pipeline_class=TranslationPipeline, pt_model=AutoModelForSeq2SeqLM, type="text"
        )
