"""Splits share no sentence, and the compositional test has what the others never have."""

from collections import Counter
from itertools import pairwise

from tests.text.grammar.helpers import sample, traced

from rela.text.grammar import generate, held_out_combinations
from rela.text.grammar.lexicon import load_lexicon
from rela.text.grammar.splits import NOUN_ROLES, PASSIVE, PERFECT_FRAME, VERB_FRAMES, possible_frames, possible_roles


def test_splits_are_disjoint_for_any_seed():
    splits = {
        "train": {pair.source for seed in (1, 7) for pair in generate("train", seed=seed, count=8000)},
        "dev": {pair.source for seed in (1, 7) for pair in generate("dev", seed=seed, count=200)},
        "test": {pair.source for seed in (1, 7) for pair in generate("test", seed=seed, count=200)},
        "test-compositional": {pair.source for pair in generate("test-compositional", seed=7, count=500)},
    }
    names = list(splits)
    for number, first in enumerate(names):
        for second in names[number + 1 :]:
            assert not splits[first] & splits[second], (first, second)


def test_about_a_tenth_of_the_combinations_is_held_out():
    lexicon = load_lexicon()
    verbs = {verb.key: possible_frames(verb) for verbs in lexicon.verbs.values() for verb in verbs}
    nouns = {noun.key: possible_roles(noun) for nouns in lexicon.nouns.values() for noun in nouns}
    total = sum(len(frames) for frames in (verbs | nouns).values())
    assert 0.06 < len(held_out_combinations()) / total < 0.12
    frames = Counter(combination.frame for combination in held_out_combinations())
    assert set(frames) == {*VERB_FRAMES, *NOUN_ROLES}
    assert min(frames.values()) >= 3


def test_a_participle_is_never_held_out_altogether():
    held_out = held_out_combinations()
    passive = {word for word, frame in held_out if frame == PASSIVE}
    perfect = {word for word, frame in held_out if frame == PERFECT_FRAME}
    assert not passive & perfect


def test_held_out_combinations_only_in_the_compositional_test():
    held_out = held_out_combinations()
    for split, count in (("train", 8000), ("dev", 300), ("test", 300)):
        assert all(held_out.isdisjoint(used) for _, used in traced(split, count))
    found: set[tuple[str, str]] = set()
    for pair, used in traced("test-compositional", 2000):
        assert not held_out.isdisjoint(used), pair
        found |= held_out & used
    assert len(found) > 0.8 * len(held_out)


def test_what_is_traced_is_in_the_sentence():
    """Held-out passives are not in training, judged by the English words alone: *be* and the participle."""
    lexicon = load_lexicon()
    held_out = {word for word, frame in held_out_combinations() if frame == PASSIVE}
    others = Counter(verb.english.participle for verbs in lexicon.verbs.values() for verb in verbs)
    participles = {
        verb.english.participle
        for verb in lexicon.verbs["transitive"]
        if verb.key in held_out and others[verb.english.participle] == 1
    }
    assert len(participles) > 2

    def passives(split: str, count: int) -> list[str]:
        return [
            pair.source
            for pair in sample(split, count)
            for before, word in pairwise(pair.source_words)
            if before in {"been", "be", "is", "are", "was", "were"} and word in participles
        ]

    assert passives("train", 8000) == []
    assert len(passives("test-compositional", 1000)) > 20


def test_every_word_is_frequent_in_training():
    """The rarest lexeme comes more than once in 4,000 sentences, held-out ones in their other frames."""
    lexicon = load_lexicon()
    count = 8000
    words = Counter(word for pair in sample() for word in set(pair.target_words))
    for nouns in lexicon.nouns.values():
        for noun in nouns:
            seen = sum(words[form] for number in noun.german for form in set(number))
            assert seen > count / 4000, noun.key
    for verbs in lexicon.verbs.values():
        for verb in verbs:
            forms = verb.conjugation
            every = {*forms.present, *forms.past, forms.participle, forms.infinitive}
            every |= {forms.prefix + form for form in (*forms.present, *forms.past)}
            assert sum(words[form] for form in every) > count / 4000, verb.key
    for adjective in lexicon.adjectives:
        forms = {adjective.predicative, *(word for word, _ in adjective.german.values())}
        assert sum(words[form] for form in forms) > count / 4000, adjective.english


def test_size_of_the_lexicon():
    lexicon = load_lexicon()
    english = {noun.key for nouns in lexicon.nouns.values() for noun in nouns}
    german = {noun.german[0][0] for nouns in lexicon.nouns.values() for noun in nouns}
    english |= {verb.key.split("=")[0] for verbs in lexicon.verbs.values() for verb in verbs}
    german |= {verb.conjugation.infinitive for verbs in lexicon.verbs.values() for verb in verbs}
    english |= {adjective.english for adjective in lexicon.adjectives}
    german |= {adjective.predicative for adjective in lexicon.adjectives}
    assert min(len(english), len(german)) > 450
