"""Talks to the pixel_tool program: one process for a whole test session, a request per call.

Used by the test_decode_*.py files through the `pixels` fixture of conftest.py. The build directory comes from
the environment variable SL_BUILD_DIR. Not thread-safe.
"""

import os
import subprocess
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from PIL import Image

TOOL = Path(os.environ.get("SL_BUILD_DIR", "build/dev")) / "tests" / "pixel_tool"


@dataclass
class Answer:
    """A sample: what the tool found out, and its pixels (height x width x channels, or height x width)."""

    format: str
    size: tuple
    progressive: bool
    warnings: int
    ambiguous: bool
    box: tuple  # left, top, right, bottom, as Pillow wants it
    resize: tuple  # width, height
    crop: tuple  # x, y
    flip: bool
    glanced: tuple  # the size that a glance at the header told; (0, 0) for nothing
    micros: int
    rss_kb: int
    pixels: np.ndarray
    kind: str = ""


@dataclass
class Failure:
    """A typed sample error."""

    kind: str
    offset: int
    micros: int
    rss_kb: int
    message: str


class PixelTool:
    def __init__(self):
        self.process = subprocess.Popen([TOOL], stdin=subprocess.PIPE, stdout=subprocess.PIPE)

    def close(self):
        """Ends the tool; its exit status shows what a sanitizer found."""
        self.process.stdin.close()
        assert self.process.wait(timeout=60) == 0

    def run(self, path, *words, sample=1):
        """Runs the pipeline that `words` describe (see pixel_tool.cpp) on a file."""
        line = f"{sample} {' '.join(words)}\t{path}\n"
        self.process.stdin.write(line.encode())
        self.process.stdin.flush()
        head = self.process.stdout.readline().decode(errors="replace").rstrip("\n")
        assert head, f"pixel_tool ended at: {line}"
        if head.startswith("error "):
            _, kind, offset, micros, rss, message = head.split(" ", 5)
            return Failure(kind, int(offset), int(micros), int(rss), message)
        return self._answer(head.split(), words)

    def whole(self, path, size, *words):
        """The picture as it is: no crop, no resize. `size` is (width, height)."""
        return self.run(path, f"out:{size[1]}:{size[0]}", *words)

    def _answer(self, fields, words):
        numbers = [int(field) for field in fields[2:]]
        width, height, progressive, warnings, ambiguous = numbers[:5]
        x, y, box_width, box_height, resize_width, resize_height, crop_x, crop_y, flip = numbers[5:14]
        glanced = tuple(numbers[14:16])
        assert glanced in ((0, 0), (width, height)), f"a glance says {glanced} of {width} x {height}"
        count, micros, rss = numbers[16:]
        flat = np.frombuffer(self.process.stdout.read(count), np.uint8)
        channels = 1 if "channels:1" in words else 3
        rows = next(word for word in reversed(words) if word.startswith(("out", "rrc", "resize", "center")))
        shape = [int(part) for part in rows.split(":")[1:]]
        pixels = flat.reshape(*shape, channels) if channels == 3 else flat.reshape(*shape)
        return Answer(fields[1], (width, height), bool(progressive), warnings, bool(ambiguous),
                      (x, y, x + box_width, y + box_height), (resize_width, resize_height), (crop_x, crop_y),
                      bool(flip), glanced, micros, rss, pixels)


def by_pillow(image, answer, mode="RGB"):
    """What Pillow makes of the draws in `answer`: convert, crop the box, resize, mirror."""
    out = image.convert(mode).crop(answer.box).resize(answer.resize, Image.BILINEAR)
    if answer.flip:
        out = out.transpose(Image.FLIP_LEFT_RIGHT)
    return np.asarray(out)


def test_card(width=97, height=61):
    """Odd sizes, three different gradients, a red block top left, a blue block bottom right."""
    y, x = np.mgrid[0:height, 0:width]
    card = np.stack([x * 255 // max(width - 1, 1), y * 255 // max(height - 1, 1), (x + y) % 256], -1)
    card = card.astype(np.uint8)
    card[:10, :14] = (255, 0, 0)
    card[-12:, -9:] = (0, 0, 255)
    return Image.fromarray(card)


test_card.__test__ = False


def photo_like(width, height, seed=0):
    """Smooth noise with grain: compresses, resizes and upsamples like a photograph."""
    random = np.random.default_rng(seed)
    coarse = random.integers(0, 256, (height // 16 + 2, width // 16 + 2, 3), np.uint8)
    smooth = np.asarray(Image.fromarray(coarse).resize((width, height), Image.BICUBIC), np.int16)
    grain = random.integers(-12, 13, (height, width, 3), np.int16)
    return Image.fromarray(np.clip(smooth + grain, 0, 255).astype(np.uint8))
