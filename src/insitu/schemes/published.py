"""The sparse update schemes published with "On-Device Training Under 256KB Memory", by name.

model/size -> (number of last layers whose biases are trained, layers whose weights are, share of their input channels).
Layers are convolutions in forward order; the stem is 0, and the classifier is not counted.
"""

_MBV2 = (27, 30, 33, 36, 39, 42, 45, 48)
_PROXYLESS = (36, 39, 42, 45, 48, 51, 54, 57)
_MCUNET = (21, 24, 27, 30, 36, 39)

PUBLISHED: dict[str, tuple[int, tuple[int, ...], tuple[float, ...]]] = {
    "mcunet-5fps/49kb": (20, (23, 24, 27, 30, 33, 39), (0, 1 / 4, 1 / 2, 1 / 2, 0, 0)),
    "mcunet-5fps/74kb": (21, (21, 23, 24, 26, 27, 30), (1, 0, 1, 0, 1 / 2, 1)),
    "mcunet-5fps/99kb": (22, _MCUNET, (1, 1, 1, 1, 1 / 8, 1 / 4)),
    "mcunet-5fps/124kb": (24, (21, 24, 27, 30, 33, 39), (1 / 4, 1, 1, 1, 1 / 2, 1 / 2)),
    "mcunet-5fps/148kb": (23, _MCUNET, (1, 1, 1, 1, 1, 1 / 2)),
    "mbv2-w0.35/49kb": (16, (36, 39, 40, 41, 42, 45, 48, 49), (1, 1, 0, 1 / 4, 1 / 8, 1 / 8, 1 / 8, 1 / 8)),
    "mbv2-w0.35/73kb": (20, (32, 33, 36, 39, 41, 42, 45, 48), (1 / 8, 1 / 2, 1 / 2, 1, 1 / 4, 1 / 8, 1 / 8, 1)),
    "mbv2-w0.35/99kb": (25, _MBV2, (1, 1, 1, 1, 1, 1 / 8, 1 / 2, 1)),
    "mbv2-w0.35/123kb": (31, _MBV2, (1, 1, 1, 1, 1, 1 / 2, 1, 1)),
    "mbv2-w0.35/138kb": (34, _MBV2, (1, 1, 1, 1, 1, 1, 1, 1)),
    "proxyless-w0.3/49kb": (21, (39, 42, 44, 45, 50, 51, 54, 57), (1 / 4, 1, 0, 1, 0, 1 / 8, 1 / 4, 1 / 4)),
    "proxyless-w0.3/74kb": (28, (33, 36, 39, 42, 45, 51, 54, 57), (1 / 2, 1 / 4, 1, 1, 1, 1 / 2, 1 / 4, 1 / 2)),
    "proxyless-w0.3/98kb": (25, _PROXYLESS, (1, 1 / 2, 1, 1, 1 / 4, 1 / 2, 1, 1)),
    "proxyless-w0.3/120kb": (32, _PROXYLESS, (1, 1, 1, 1, 1 / 2, 1, 1, 1)),
    "proxyless-w0.3/148kb": (45, _PROXYLESS, (1, 1, 1, 1, 1, 1, 1, 1)),
}
