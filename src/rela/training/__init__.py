"""Training: loss, schedule, loop, checkpoints, averaging, more than one process."""
