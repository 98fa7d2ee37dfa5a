"""Model directories for tests: small random models with real tokenizers."""

from functools import cache
from pathlib import Path

from tests.model.small import random_model, small_config

from rela.model.directory import Languages, save_model
from rela.model.transformer import Transformer
from rela.text.store import Tokenizers
from rela.text.subwords import Subwords

_TEXT = "a the dog cat house runs sleeps sees under over small large green old ein der Hund Katze Haus läuft"
WORDS = _TEXT.split()


@cache
def subwords(merges: int = 40, *, backwards: bool = False) -> Subwords:
    """Learned from words or from words spelled backwards: as many pieces, but others."""
    words = [word[::-1] for word in WORDS] if backwards else WORDS
    return Subwords.train([" ".join(words)], merges)


def tokenizers(*, joint: bool = True) -> Tokenizers:
    if joint:
        return Tokenizers(subwords(), subwords())
    return Tokenizers(subwords(), subwords(30))


def text_model(
    attention: str = "rela-g", *, joint: bool = True, seed: int = 0, scale: float = 1.0
) -> tuple[Transformer, Tokenizers]:
    sides = tokenizers(joint=joint)
    config = small_config(
        attention,
        source_vocabulary=sides.source.size,
        target_vocabulary=sides.target.size,
        tied="all" if joint else "target",
    )
    return random_model(config, seed, scale), sides


def make_folder(folder: Path, attention: str = "rela-g", *, joint: bool = True, seed: int = 0) -> Path:
    model, sides = text_model(attention, joint=joint, seed=seed)
    save_model(folder, model, sides, Languages("en", "de"), {"test": True})
    return folder
