# SPDX-License-Identifier: Apache-2.0
"""Inputs for the models: seeded random numbers, and a page of text or speech. Each input is
prepared as in the model's own package, without the package's dependencies."""

import wave
from collections.abc import Callable
from pathlib import Path

import numpy as np
from PIL import Image, ImageOps

from models import PAGE, SPEECH, Case

Array = np.ndarray
SEED = 3
SAMPLE_RATE = 16000
SPEECH_START = 10 * SAMPLE_RATE  # two people talk from here on
TEXT_LINE = (4, 64, 380, 84)  # left, top, right, bottom of a line of text on the page


def random_input(shape: tuple[int, ...]) -> Array:
    """Return uniform numbers in -1..1, the range of the inputs of all these models."""
    return np.random.default_rng(SEED).uniform(-1, 1, shape).astype(np.float32)


def planes(image: Image.Image, mean: Array, deviation: Array) -> Array:
    """float32 [1, 3, H, W], normalised per channel."""
    pixels = np.asarray(image.convert("RGB"), np.float32) / np.float32(255)
    return np.ascontiguousarray(((pixels - mean) / deviation).transpose(2, 0, 1)[None])


def page(folder: Path) -> Image.Image:
    return Image.open(folder / PAGE.name)


def text_line(folder: Path, shape: tuple[int, ...]) -> Array:
    """Return a line of text, scaled to the height, compressed if it is too wide, and otherwise
    padded with zeros."""
    height, width = shape[2:]
    line = page(folder).crop(TEXT_LINE)
    fitted = min(width, round(line.width * height / line.height))
    half = np.full(3, 0.5, np.float32)
    result = np.zeros(shape, np.float32)
    result[..., :fitted] = planes(line.resize((fitted, height)), half, half)
    return result


def text_page(folder: Path, shape: tuple[int, ...]) -> Array:
    """Return the middle of the page, cropped to the size of the input."""
    half = np.full(3, 0.5, np.float32)
    return planes(ImageOps.fit(page(folder), (shape[3], shape[2])), half, half)


def upright_page(folder: Path, shape: tuple[int, ...]) -> Array:
    """Return the middle of the page, normalised with ImageNet's mean and deviation."""
    mean = np.array([0.485, 0.456, 0.406], np.float32)
    deviation = np.array([0.229, 0.224, 0.225], np.float32)
    return planes(ImageOps.fit(page(folder), (shape[3], shape[2])), mean, deviation)


def speech(folder: Path, shape: tuple[int, ...]) -> Array:
    """Samples in -1..1 at 16 kHz."""
    with wave.open(str(folder / SPEECH.name)) as file:
        file.setpos(SPEECH_START)
        samples = np.frombuffer(file.readframes(shape[1]), "<i2")
    return (samples.astype(np.float32) / 32768)[None]


def mel_filters(bins: int, bands: int, frame: int) -> Array:
    """Triangles of equal area on Slaney's mel scale: linear below 1 kHz, logarithmic above."""

    def mel_to_hz(mel: Array) -> Array:
        return np.where(mel < 15, mel * 200 / 3, 1000 * 6.4 ** ((mel - 15) / 27))

    top = 15 + 27 * np.log(SAMPLE_RATE / 2 / 1000) / np.log(6.4)
    edges = mel_to_hz(np.linspace(0, top, bands + 2))
    frequencies = np.arange(bins) * SAMPLE_RATE / frame
    rising = (frequencies - edges[:-2, None]) / np.diff(edges)[:-1, None]
    falling = (edges[2:, None] - frequencies) / np.diff(edges)[1:, None]
    triangles = np.maximum(0, np.minimum(rising, falling))
    return triangles * (2 / (edges[2:] - edges[:-2]))[:, None]


def speech_spectrogram(folder: Path, shape: tuple[int, ...]) -> Array:
    """The log-mel spectrogram of the speech: 20 ms frames every 10 ms, decibels below the loudest
    (80 at most), moved to about -1..1."""
    frames, bands = shape[1:]
    frame, hop = 321, 160
    samples = np.pad(speech(folder, (1, frames * hop))[0].astype(np.float64), frame // 2)
    window = 0.5 - 0.5 * np.cos(2 * np.pi * np.arange(frame) / frame)
    framed = np.lib.stride_tricks.sliding_window_view(samples, frame)[::hop][:frames] * window
    power = np.abs(np.fft.rfft(framed)) ** 2
    mel = power @ mel_filters(power.shape[1], bands, frame).T
    decibels = 10 * np.log10(np.maximum(mel, 1e-10) / mel.max())
    return ((np.maximum(decibels, -80) + 40) / 40).astype(np.float32)[None]


REAL: dict[str, Callable[[Path, tuple[int, ...]], Array]] = {
    "ppocr-cls": text_line,
    "ppocr-det-320x320": text_page,
    "ppocr-det-640x480": text_page,
    "dnsmos-p808": speech_spectrogram,
    "dnsmos": speech,
    "orientation": upright_page,
}


def make_input(case: Case, kind: str, folder: Path) -> Array:
    """The input of a case; folder holds the files of models.INPUT_FILES.

    "random" is noise, "real" a text or speech, "noisy" is "real" with half as much noise
    added, "tokens" are random words of a vocabulary."""
    if kind == "tokens":
        return np.random.default_rng(SEED).integers(1000, 30000, case.shape)
    if kind == "random":
        return random_input(case.shape)
    result = REAL[case.name](folder, case.shape)
    if kind == "noisy":
        result += np.float32(0.5) * random_input(case.shape)
    if result.shape != case.shape or result.dtype != np.float32:
        raise ValueError(f"{case.name}: made {result.dtype} {result.shape}, not {case.shape}")
    return result
