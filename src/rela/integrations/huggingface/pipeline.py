"""A pipeline that translates: transformers 5 has none any more."""

from __future__ import annotations

from typing import Any, Final

from transformers import AutoModelForSeq2SeqLM, Pipeline
from transformers.pipelines import PIPELINE_REGISTRY

TASK: Final = "rela-translation"


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
        """Text to ids."""
        assert self.tokenizer is not None
        if not input_.strip():
            return {"empty": True}
        return dict(self.tokenizer(input_, return_tensors="pt"))

    def _forward(self, input_tensors: dict[str, Any], **generate: Any) -> Any:
        if "empty" in input_tensors:
            return {"ids": [[]]}
        return {"ids": self.model.generate(**input_tensors, **generate)}  # pyright: ignore[reportCallIssue]

    def postprocess(self, model_outputs: dict[str, Any], **_: Any) -> list[dict[str, str]]:
        """Ids to text; several, if several were asked for."""
        assert self.tokenizer is not None
        texts = self.tokenizer.batch_decode(model_outputs["ids"], skip_special_tokens=True)
        return [{"translation_text": text} for text in texts]


def register_pipeline() -> None:
    """By the name `rela-translation`; `translation` is one that transformers refuses."""
    if TASK not in PIPELINE_REGISTRY.get_supported_tasks():
        PIPELINE_REGISTRY.register_pipeline(
            TASK, pipeline_class=TranslationPipeline, pt_model=AutoModelForSeq2SeqLM, type="text"
        )
