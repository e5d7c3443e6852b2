"""Data sets for PyTorch's DataLoader that read with a Loader, for test_fork.py; its workers import this."""

import torch.utils.data
from stalls import id_loader


class Building(torch.utils.data.IterableDataset):
    """Makes its loader in the worker."""

    def __init__(self, socket, folder):
        self._where = socket, folder

    def __iter__(self):
        with id_loader(*self._where) as loader:
            for batch in loader:
                yield batch.torch("image", "sample_id")


class Carrying(torch.utils.data.IterableDataset):
    """Brings its loader along; one batch of that is taken already."""

    def __init__(self, socket, folder):
        self.loader = id_loader(socket, folder)
        self.iterator = iter(self.loader)
        self.first = next(self.iterator)

    def __iter__(self):
        for batch in self.loader:
            yield batch.torch("image", "sample_id")

    def __getstate__(self):
        return {"loader": self.loader}


def through_worker(data, method):
    """[(sample id, colour)] of what a worker process reads of a data set."""
    options = {"batch_size": None, "num_workers": 1, "multiprocessing_context": method}
    return [(int(i), int(image[0].max()))
            for images, sample_ids in torch.utils.data.DataLoader(data, **options)
            for image, i in zip(images, sample_ids)]
