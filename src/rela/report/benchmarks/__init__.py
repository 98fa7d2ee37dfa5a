"""Tables and figures of benchmarks, from their result files."""
