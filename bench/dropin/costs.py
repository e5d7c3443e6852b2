"""costs.py SET PLACE COUNT MOST: what the items of a set cost, in one process and without a loader.

Called by bench/dropin_tail.py. Makes up to MOST items, evenly spread, and a tenth as many of the heavy ones
where the set has such, each once, and prints one JSON line: {"cost_ms": CPU time of the mean item,
"variation": standard deviation by mean, "heavy_ratio": the mean of heavy items by that of the others, or 0,
"bytes"}. CPU time of this process, one thread. Fails with the data set's own error.
"""

import json
import statistics
import sys
import time

import torch

import sets


def spread(indices, most):
    """At most so many of them, evenly spread."""
    step = max(1, -(-len(indices) // most))
    return indices[::step]


def costs_of(dataset, indices):
    """CPU milliseconds of each."""
    found = []
    for index in indices:
        begin = time.process_time()
        dataset[index]
        found.append(1000 * (time.process_time() - begin))
    return found


def weighted(values, weight):
    return [(value, weight / len(values)) for value in values] if values else []


def summary(light, heavy, heavy_share):
    """Each group of measured items stands for its share of the set."""
    every = weighted(light, 1 - heavy_share) + weighted(heavy, heavy_share)
    mean = sum(value * weight for value, weight in every)
    variance = sum(weight * (value - mean) ** 2 for value, weight in every)
    ratio = statistics.fmean(heavy) / statistics.fmean(light) if heavy and light else 0.0
    return {"cost_ms": mean, "variation": variance ** 0.5 / mean, "heavy_ratio": ratio}


def main():
    name, place, count, most = sys.argv[1], sys.argv[2], int(sys.argv[3]), int(sys.argv[4])
    torch.set_num_threads(1)
    torch.manual_seed(0)
    dataset = sets.make(name, place, count)
    rare = set(dataset.heavy)
    common = [index for index in range(len(dataset)) if index not in rare]
    dataset[common[0]]  # what is imported or allocated once
    told = summary(costs_of(dataset, spread(common, most)),
                   costs_of(dataset, spread(dataset.heavy, max(3, most // 10))), len(rare) / len(dataset))
    first = dataset[common[0]][0]
    print(json.dumps(told | {"bytes": first.nbytes}))


if __name__ == "__main__":
    main()
