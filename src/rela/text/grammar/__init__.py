"""The built-in corpus: English-German sentence pairs with gold word alignments and tags, by grammar and lexicon."""

from .corpus import DEFAULT_COUNTS as DEFAULT_COUNTS
from .corpus import write_corpus as write_corpus
from .pairs import GrammarPair as GrammarPair
from .pairs import generate as generate
from .splits import SPLITS as SPLITS
from .splits import Combination as Combination
from .splits import held_out_combinations as held_out_combinations
