"""ReLA in models of Hugging Face transformers, and our own models among them. Importing this registers all of it.

>>> import rela.integrations.huggingface as rela_hf
>>> model = rela_hf.convert(AutoModelForSeq2SeqLM.from_pretrained("folder"), "rela-g")
>>> model.save_pretrained("converted")  # from_pretrained("converted") gives the same model again

>>> AutoModelForSeq2SeqLM.from_pretrained("model-dir").generate(...)  # a model directory of ours, as it is

Needs the extra ``huggingface``: transformers 5.
"""

from rela.integrations.huggingface.config import RelaConfig as RelaConfig
from rela.integrations.huggingface.conversion import convert as convert
from rela.integrations.huggingface.heads import NAMES as NAMES
from rela.integrations.huggingface.looking import register_looking
from rela.integrations.huggingface.pipeline import TranslationPipeline as TranslationPipeline
from rela.integrations.huggingface.pipeline import register_pipeline
from rela.integrations.huggingface.registration import register
from rela.integrations.huggingface.tokenizer import RelaTokenizer as RelaTokenizer
from rela.integrations.huggingface.tokenizer import register_tokenizer
from rela.integrations.huggingface.translation import RelaForConditionalGeneration as RelaForConditionalGeneration
from rela.integrations.huggingface.translation import register_translation

__all__ = [
    "NAMES",
    "RelaConfig",
    "RelaForConditionalGeneration",
    "RelaTokenizer",
    "TranslationPipeline",
    "convert",
]

register()
register_translation()
register_tokenizer()
register_pipeline()
register_looking()
