"""Our own decoder, in a process like those of the peers."""

import torch
from loop import serve

from rela.bench.forcing import force_length, random_model


def prepare(setting):
    """Make a model and be ready to translate."""
    torch.set_num_threads(setting["threads"])
    model = random_model(setting["attention"], setting["size_name"], setting["size"]["vocabulary"])
    steps = {"beam": setting["beam"], "length": setting["length"], "precision": setting["precision"]}
    return force_length(model, setting["source"], **steps)


if __name__ == "__main__":
    serve(prepare)
