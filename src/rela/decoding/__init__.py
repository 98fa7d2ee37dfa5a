"""Decoding: cached beam search, and the Translator."""
