"""Where words meet weights: attention between words, and the links it makes."""
