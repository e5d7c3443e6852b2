"""Specs that the Python tests share. Plain values, no failures."""

MEAN = [0.485, 0.456, 0.406]
STD = [0.229, 0.224, 0.225]


def spec(folder, size=(64, 64), batch=16, last="keep", dtype="float32", layout="NCHW", seed=0, shuffle=True,
         policy="strict", errors=None, shard=None, **top):
    """A training pipeline over a folder; `top` are further keys of the document."""
    pipeline = [{"op": "decode", "channels": 3}, {"op": "random_resized_crop", "size": list(size)},
                {"op": "random_horizontal_flip", "p": 0.5}]
    if dtype != "uint8":
        pipeline.append({"op": "normalize", "mean": MEAN, "std": STD})
    made = {"dataset": {"kind": "image_folder", "path": str(folder)}, "pipeline": pipeline,
            "output": {"dtype": dtype, "layout": layout}, "batch": {"size": batch, "last": last},
            "order": {"shuffle": shuffle, "seed": seed, "policy": policy}, **top}
    if errors is not None:
        made["errors"] = errors
    if shard is not None:
        made["shard"] = shard
    return made


def id_spec(folder, **options):
    """For id pictures: one pixel is enough, and nothing changes it."""
    made = spec(folder, dtype="uint8", layout="NHWC", **options)
    made["pipeline"] = [{"op": "decode", "channels": 3}, {"op": "resize", "size": [2, 2]}]
    return made
