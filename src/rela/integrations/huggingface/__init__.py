"""ReLA in models of Hugging Face transformers. Importing this registers all attentions by name.

>>> import rela.integrations.huggingface as rela_hf
>>> model = rela_hf.convert(AutoModelForSeq2SeqLM.from_pretrained("folder"), "rela-g")
>>> model.save_pretrained("converted")  # from_pretrained("converted") gives the same model again

Needs the extra ``huggingface``: transformers 5.
"""

from rela.integrations.huggingface.conversion import convert as convert
from rela.integrations.huggingface.heads import NAMES as NAMES
from rela.integrations.huggingface.registration import register

__all__ = ["NAMES", "convert"]

register()
