"""Our own decoder, in a process like those of the peers."""

import torch
from loop import serve

from rela.bench.forcing import force_length, load_for_decoding


def prepare(setting):
    """Load a model and be ready to translate."""
    torch.set_num_threads(setting["threads"])
    model = load_for_decoding(setting["folder"], setting["precision"])
    return force_length(model, setting["source"], beam=setting["beam"], length=setting["length"])


if __name__ == "__main__":
    serve(prepare)
