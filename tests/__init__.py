"""A package, so that no installed one of this name is found in its place by processes that tests start."""
