"""Words: readers, corpora, subwords, token store, batches, pieces and the words they belong to."""
