"""The subwords of a model directory as a fast tokenizer of transformers."""

from __future__ import annotations

from pathlib import Path
from typing import Any, Final

from tokenizers import AddedToken, Tokenizer
from tokenizers.processors import TemplateProcessing
from transformers import AutoTokenizer, PreTrainedTokenizerFast

from rela.integrations.huggingface.config import RelaConfig
from rela.text.store import Tokenizers
from rela.text.subwords import Subwords
from rela.text.vocabulary import BOS, EOS, PAD, SPECIAL_PIECES

_FILES: Final = {
    "tokenizer_file": "tokenizer.json",
    "source_file": "tokenizer.source.json",
    "target_file": "tokenizer.target.json",
}


class RelaTokenizer(PreTrainedTokenizerFast):
    """One vocabulary for both languages, or one for each. EOS ends every text; ids become text by the target's."""

    vocab_files_names = _FILES
    model_input_names = ["input_ids", "attention_mask"]  # noqa: RUF012 (transformers reads it of the class)

    def __init__(
        self,
        tokenizer_file: str | None = None,
        source_file: str | None = None,
        target_file: str | None = None,
        **options: Any,
    ) -> None:
        self._ours = _load(tokenizer_file, source_file, target_file)
        source = _with_end(self._ours.source)
        self._backends = source, source if self._ours.joint else _with_end(self._ours.target)
        for name in ("tokenizer_object", "pad_token", "bos_token", "eos_token"):
            options.pop(name, None)
        super().__init__(
            tokenizer_object=source,
            pad_token=SPECIAL_PIECES[PAD],
            bos_token=SPECIAL_PIECES[BOS],
            eos_token=SPECIAL_PIECES[EOS],
            **{"clean_up_tokenization_spaces": False, "split_special_tokens": True, **options},  # ⟨s⟩ in a text is text
        )
        self._backends = self._tokenizer, self._tokenizer if self._ours.joint else self._backends[1]

    @classmethod
    def convert_to_native_format(cls, trust_remote_code: bool = False, **kwargs: Any) -> dict[str, Any]:
        """Our files are read as they are; transformers would take them apart."""
        del trust_remote_code
        return kwargs

    @property
    def ours(self) -> Tokenizers:
        """The subwords themselves."""
        return self._ours

    def _switch_to_input_mode(self) -> None:
        self._tokenizer = self._backends[0]

    def _switch_to_target_mode(self) -> None:
        self._tokenizer = self._backends[1]

    def _decode(self, *arguments: Any, **options: Any) -> Any:
        self._switch_to_target_mode()
        try:
            return super()._decode(*arguments, **options)
        finally:
            self._switch_to_input_mode()

    def _add_tokens(self, new_tokens: Any, special_tokens: bool = False) -> int:
        unknown = [str(token) for token in new_tokens if self._tokenizer.token_to_id(str(token)) is None]
        if unknown:
            raise NotImplementedError(
                f"expected the vocabulary that the model was trained with, got new tokens ({', '.join(unknown[:5])}); "
                "the model has no embeddings for them; train one with another vocabulary"
            )
        return super()._add_tokens(new_tokens, special_tokens=special_tokens)

    def save_vocabulary(self, save_directory: str, filename_prefix: str | None = None) -> Any:
        """The files as they are in a model directory."""
        prefix = f"{filename_prefix}-" if filename_prefix else ""
        paths: list[str] = []
        for name, content in self._ours.files().items():
            path = Path(save_directory, f"{prefix}{name}")
            path.write_text(content, encoding="utf-8")
            paths.append(str(path))
        return tuple(paths)

    def _save_pretrained(
        self, save_directory: Any, file_names: tuple[str, ...], *_: Any, filename_prefix: str | None = None, **__: Any
    ) -> tuple[str, ...]:
        return file_names + self.save_vocabulary(str(save_directory), filename_prefix)


def _load(joint: str | None, source: str | None, target: str | None) -> Tokenizers:
    if joint is not None:
        subwords = Subwords.load(joint)
        return Tokenizers(subwords, subwords)
    if source is None or target is None:
        raise ValueError(
            "expected tokenizer.json, or tokenizer.source.json and tokenizer.target.json, of a model directory, got "
            "neither; name such a folder"
        )
    return Tokenizers(Subwords.load(source), Subwords.load(target))


def _with_end(subwords: Subwords) -> Tokenizer:
    tokenizer = Tokenizer.from_str(subwords.to_json())
    tokenizer.add_special_tokens([AddedToken(piece, special=True, normalized=False) for piece in SPECIAL_PIECES])
    tokenizer.encode_special_tokens = True  # in a text, they are text
    end = SPECIAL_PIECES[EOS]
    tokenizer.post_processor = TemplateProcessing(
        single=f"$A {end}", pair=f"$A {end} $B:1 {end}:1", special_tokens=[(end, EOS)]
    )  # pyright: ignore[reportAttributeAccessIssue]
    return tokenizer


def register_tokenizer() -> None:
    """So that AutoTokenizer finds it."""
    AutoTokenizer.register(RelaConfig, fast_tokenizer_class=RelaTokenizer, exist_ok=True)
