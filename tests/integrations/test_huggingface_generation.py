"""Our models search in transformers as in the Translator, up to the greatest length too; and so in a pipeline."""

from typing import Any

import pytest
import torch
from tests.integrations.translation_models import SOURCES, Made, load
from torch import Tensor
from transformers import GenerationConfig, GenerationMixin, StoppingCriteria, StoppingCriteriaList, pipeline

import rela
from rela.text.vocabulary import EOS

pytestmark = pytest.mark.usefixtures("quiet_transformers")


@pytest.mark.parametrize(("beam", "penalty"), [(1, 0.6), (4, 0.6), (3, 0.0), (5, 1.5)])
def test_translations_are_those_of_the_translator(made: Made, beam: int, penalty: float):
    expected = rela.Translator.load(made.folder).translate(SOURCES, beam=beam, length_penalty=penalty)
    assert all(one.finished for one in expected)
    options: dict[str, Any] = {} if (beam, penalty) == (4, 0.6) else {"num_beams": beam}
    if beam > 1 and options:
        options["length_penalty"] = penalty
    elif beam == 1:
        options |= {"length_penalty": None, "early_stopping": None}
    assert made.translated(**options) == [one.text for one in expected]


def test_scores_are_those_of_the_translator(made: Made):
    found = made.model.generate(**made.batch(), return_dict_in_generate=True, output_scores=True)
    expected = rela.Translator.load(made.folder).translate(SOURCES)
    torch.testing.assert_close(found.sequences_scores, torch.tensor([one.score for one in expected]))


@pytest.fixture(scope="module")
def endless(made: Made, tmp_path_factory: pytest.TempPathFactory) -> Made:
    """The same model, which finds an end less often."""
    folder = tmp_path_factory.mktemp("endless")
    _, model, tokenizer = load(made.folder)
    with torch.no_grad():
        model.model.projection[EOS] *= 0.2
    model.save_pretrained(folder)
    tokenizer.save_pretrained(folder)
    return load(folder)


def assert_like_the_translator(made: Made, beam: int, options: dict[str, Any], **ours: Any) -> list[bool]:
    """All hypotheses and their scores; returns which of them have ended."""
    expected = rela.Translator.load(made.folder).translate(SOURCES, beam=beam, nbest=beam, **ours)
    hypotheses = [one for best in expected for one in (best, *best.alternatives)]
    if beam == 1:
        options |= {"length_penalty": None, "early_stopping": None}
    else:
        options |= {"num_return_sequences": beam, "return_dict_in_generate": True, "output_scores": True}
    found = made.model.generate(**made.batch(), num_beams=beam, **options)
    sequences = found if beam == 1 else found.sequences
    assert made.tokenizer.batch_decode(sequences, skip_special_tokens=True) == [one.text for one in hypotheses]
    if beam > 1:
        torch.testing.assert_close(found.sequences_scores, torch.tensor([one.score for one in hypotheses]))
    return [one.finished for one in hypotheses]


@pytest.mark.parametrize("beam", [1, 2, 4])
class TestGreatestLength:
    def test_each_sentence_has_its_own(self, endless: Made, beam: int):
        finished = assert_like_the_translator(endless, beam, {})
        assert not all(finished)

    @pytest.mark.parametrize("longest", [1, 4, 10])
    def test_one_of_the_callers(self, made: Made, beam: int, longest: int):
        finished = assert_like_the_translator(made, beam, {"max_new_tokens": longest}, max_length=longest)
        assert any(finished) if longest == 10 else not all(finished)

    def test_one_in_a_config(self, made: Made, beam: int):
        config = GenerationConfig.from_dict({**made.model.generation_config.to_dict(), "max_new_tokens": 4})
        assert_like_the_translator(made, beam, {"generation_config": config}, max_length=4)


def test_the_encoders_states_are_enough(endless: Made):
    batch = endless.batch()
    expected = endless.model.generate(**batch)
    states = endless.model.get_encoder()(**batch)
    found = endless.model.generate(encoder_outputs=states, attention_mask=batch["attention_mask"])
    assert torch.equal(found, expected)


@pytest.mark.parametrize("beam", [1, 4])
def test_nothing_is_translated_into_nothing(made: Made, beam: int):
    options: dict[str, Any] = {"length_penalty": None, "early_stopping": None} if beam == 1 else {}
    ids = made.model.generate(**made.batch(["", *SOURCES, ""]), num_beams=beam, **options)
    found = made.tokenizer.batch_decode(ids, skip_special_tokens=True)
    assert found == ["", *made.translated(num_beams=beam, **options), ""]


@pytest.mark.parametrize("beam", [1, 4])
def test_a_mask_is_not_needed(made: Made, beam: int):
    """The ids say where padding is."""
    options = {"length_penalty": None, "early_stopping": None} if beam == 1 else {}
    expected = made.model.generate(**made.batch(), num_beams=beam, **options)
    assert torch.equal(made.model.generate(made.batch().input_ids, num_beams=beam, **options), expected)


class Third(StoppingCriteria):
    """Stops at the third token."""

    def __call__(self, input_ids: Tensor, *_: Any, **__: Any) -> Any:
        return torch.full((len(input_ids),), input_ids.shape[1] == 1 + 3)


@pytest.mark.parametrize("beam", [1, 4])
def test_criteria_of_the_caller_stop_too(endless: Made, beam: int):
    options: dict[str, Any] = {"length_penalty": None, "early_stopping": None} if beam == 1 else {}
    found, limited = (
        endless.translated(num_beams=beam, **stop, **options)
        for stop in ({"stopping_criteria": StoppingCriteriaList([Third()])}, {"max_new_tokens": 3})
    )
    assert found == limited
    assert found != endless.translated(num_beams=beam, **options)


def test_a_search_that_transformers_has_changed_is_refused(made: Made, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.delattr(GenerationMixin, "_update_finished_beams")
    with pytest.raises(RuntimeError, match=r"expected transformers with _update_finished_beams .*, got 5\."):
        made.model.generate(**made.batch())


class TestPipeline:
    @pytest.fixture(scope="class")
    @classmethod
    def translate(cls, made: Made) -> Any:
        return pipeline("rela-translation", model=str(made.folder))  # pyright: ignore[reportCallIssue, reportArgumentType]

    def test_translates(self, made: Made, translate: Any):
        assert [one[0]["translation_text"] for one in translate(SOURCES)] == made.translated()
        assert len(translate(SOURCES[0], num_return_sequences=2)) == 2

    @pytest.mark.parametrize("batch_size", [1, 2, 3, 8])
    @pytest.mark.parametrize("best", [1, 2])
    def test_batches_with_empty_texts(self, made: Made, translate: Any, batch_size: int, best: int):
        sources = ["", *SOURCES, "  ", "", "\t"]
        ours = rela.Translator.load(made.folder).translate(sources, nbest=best)
        expected = [[one.text for one in (first, *first.alternatives)] for first in ours]
        found = translate(sources, batch_size=batch_size, num_return_sequences=best)
        assert [[one["translation_text"] for one in texts] for texts in found] == expected

    def test_what_is_no_text(self, translate: Any):
        with pytest.raises(TypeError, match="expected a text or a list of texts, got int"):
            translate(5)

    def test_nothing_but_empty_texts(self, translate: Any):
        assert translate([""]) == [[{"translation_text": ""}]]
        assert translate(["", " "], batch_size=2) == [[{"translation_text": ""}]] * 2
