"""first_batch.py ours|torch FOLDER WORKERS SOCKET: from making a loader to its first batch, in seconds.

Called by bench/python_overhead.py. Both make batches of 64 float32 tensors with random-resized-crop 224, flip
and normalise, shuffled. Imports are done before the clock starts; listing the folder is part of what is
timed. `ours` asks the daemon at SOCKET; `torch` is torchvision's ImageFolder under torch's DataLoader with
WORKERS processes. Prints one JSON line: {"first_batch_s"}. Fails with the loader's own error.
"""

import json
import sys
import time

SHAPE = (64, 3, 224, 224)


def ours(folder, _workers, socket):
    import speedyloader as sl

    start = time.monotonic()
    loader = sl.Loader(sl.ImageFolder(folder),
                       [sl.RandomResizedCrop(224), sl.RandomHorizontalFlip(),
                        sl.Normalize(sl.IMAGENET_MEAN, sl.IMAGENET_STD)], batch_size=64, socket=socket)
    images = next(iter(loader))["image"]
    return time.monotonic() - start, images


def torch(folder, workers, _socket):
    from torch.utils.data import DataLoader
    from torchvision import datasets, transforms

    start = time.monotonic()
    dataset = datasets.ImageFolder(folder, transforms.Compose([
        transforms.RandomResizedCrop(224), transforms.RandomHorizontalFlip(), transforms.ToTensor(),
        transforms.Normalize([0.485, 0.456, 0.406], [0.229, 0.224, 0.225])]))
    loader = DataLoader(dataset, batch_size=64, shuffle=True, drop_last=True, num_workers=workers)
    batches = iter(loader)  # kept: letting go of it waits for its processes
    images, _labels = next(batches)
    return time.monotonic() - start, images


def main():
    which, folder, workers, socket = sys.argv[1:]
    seconds, images = {"ours": ours, "torch": torch}[which](folder, int(workers), socket)
    if tuple(images.shape) != SHAPE:
        sys.exit(f"first_batch.py: the first batch is {tuple(images.shape)}, expected {SHAPE}")
    print(json.dumps({"first_batch_s": seconds}))


if __name__ == "__main__":
    main()
