"""The Transformer, its configuration, its directory format."""
