"""GGUF files in numpy: a reader, a writer, and plain quantisation and dequantisation of the tensor types that the
native engine runs. Written from the format's description, apart from the C++ code, so that tests compare two minds."""
import struct

import numpy as np

# name -> (id, elements per block, bytes per block)
TYPES = {"F32": (0, 1, 4), "F16": (1, 1, 2), "Q4_0": (2, 32, 18), "Q4_1": (3, 32, 20), "Q5_0": (6, 32, 22),
         "Q5_1": (7, 32, 24), "Q8_0": (8, 32, 34), "Q2_K": (10, 256, 84), "Q3_K": (11, 256, 110), "Q4_K": (12, 256, 144),
         "Q5_K": (13, 256, 176), "Q6_K": (14, 256, 210), "BF16": (30, 1, 2)}
NAMES = {number: name for name, (number, _, _) in TYPES.items()}
ALIGNMENT = 32


# ---- quantisation: float32 [rows, columns] -> bytes [rows, row bytes]
def _half(x):
    return np.ascontiguousarray(x.astype("<f2")).view(np.uint8)


def _nibbles(q):
    """[blocks, 32] small integers -> [blocks, 16] bytes, the first half in the low nibbles."""
    return (q[:, :16] | (q[:, 16:] << 4)).astype(np.uint8)


def quantize(name, x):
    rows, columns = x.shape
    x = np.ascontiguousarray(x, np.float32)
    if name == "F32":
        return x.view(np.uint8).reshape(rows, -1)
    if name == "F16":
        return _half(x).reshape(rows, -1)
    if name == "BF16":
        bits = x.view(np.uint32).astype(np.uint64)
        rounded = (bits + 0x7FFF + ((bits >> 16) & 1)) >> 16
        return np.ascontiguousarray(rounded.astype("<u2")).view(np.uint8).reshape(rows, -1)
    b = x.reshape(-1, TYPES[name][1])
    if name == "Q8_0":
        scale = (np.abs(b).max(axis=1, keepdims=True) / 127).astype("<f2")
        q = np.rint(b / np.maximum(scale.astype(np.float32), 1e-12)).clip(-127, 127).astype(np.int8)
        parts = [_half(scale), q.view(np.uint8)]
    elif name in ("Q4_0", "Q5_0"):
        most = 8 if name == "Q4_0" else 16
        scale = (np.abs(b).max(axis=1, keepdims=True) / most).astype("<f2")
        q = np.rint(b / np.maximum(scale.astype(np.float32), 1e-12)).clip(-most, most - 1).astype(np.int32) + most
        parts = [_half(scale), *_fifth_bits(q, name), _nibbles(q & 15)]
    elif name in ("Q4_1", "Q5_1"):
        most = 15 if name == "Q4_1" else 31
        low, high = b.min(axis=1, keepdims=True), b.max(axis=1, keepdims=True)
        scale, low = ((high - low) / most).astype("<f2"), low.astype("<f2")
        q = np.rint((b - low.astype(np.float32)) / np.maximum(scale.astype(np.float32), 1e-12)).clip(0, most).astype(np.int32)
        parts = [_half(scale), _half(low), *_fifth_bits(q, name), _nibbles(q & 15)]
    elif name in ("Q3_K", "Q6_K"):
        parts = _quantize_signed_groups(b, name)
    else:
        parts = _quantize_groups_with_minima(b, name)
    return np.concatenate([p.reshape(len(b), -1) for p in parts], axis=1).reshape(rows, -1)


def _fifth_bits(q, name):
    return [np.packbits(q >> 4, axis=1, bitorder="little")] if name.startswith("Q5") else []


def _planes(q, bits):
    """[blocks, parts, planes, values] small integers -> [blocks, parts, values] bytes: plane p at bit p * bits."""
    return np.bitwise_or.reduce(q << (bits * np.arange(q.shape[2]))[:, None], axis=2).astype(np.uint8)


def _quantize_signed_groups(b, name):
    most, scale_most = (32, 127) if name == "Q6_K" else (4, 31)
    groups = b.reshape(-1, 16, 16)
    wanted = np.abs(groups).max(axis=2) / (most - 1)
    d = (wanted.max(axis=1, keepdims=True) / scale_most).astype("<f2")
    scales = np.rint(wanted / np.maximum(d.astype(np.float32), 1e-12)).clip(-scale_most - 1, scale_most)
    step = (d.astype(np.float32) * scales)[:, :, None]
    q = np.rint(groups / np.where(step == 0, 1, step)).clip(-most, most - 1).astype(np.int32) + most
    if name == "Q6_K":
        return [_planes((q & 15).reshape(-1, 2, 2, 64), 4), _planes((q >> 4).reshape(-1, 2, 4, 32), 2),
                scales.astype(np.int8).view(np.uint8), _half(d)]
    six = scales.astype(np.int32) + 32
    packed = [_planes((six & 15).reshape(-1, 1, 2, 8), 4), _planes((six >> 4).reshape(-1, 1, 4, 4), 2)]
    return [_planes((q >> 2).reshape(-1, 1, 8, 32), 1), _planes((q & 3).reshape(-1, 2, 4, 32), 2),
            np.concatenate(packed, axis=2), _half(d)]


def _quantize_groups_with_minima(b, name):
    most, count, scale_most = {"Q2_K": (3, 16, 15), "Q4_K": (15, 8, 63), "Q5_K": (31, 8, 63)}[name]
    groups = b.reshape(len(b), count, -1)
    low = np.minimum(groups.min(axis=2), 0)
    wanted = (groups.max(axis=2) - low) / most
    d, dmin = ((w.max(axis=1, keepdims=True) / scale_most).astype("<f2") for w in (wanted, -low))
    scales, minima = (np.rint(w / np.maximum(h.astype(np.float32), 1e-12)).clip(0, scale_most).astype(np.int32)
                      for w, h in ((wanted, d), (-low, dmin)))
    step = (d.astype(np.float32) * scales)[:, :, None]
    from_low = groups + (dmin.astype(np.float32) * minima)[:, :, None]
    q = np.rint(from_low / np.where(step == 0, 1, step)).clip(0, most).astype(np.int32)
    if name == "Q2_K":
        return [(scales | minima << 4).astype(np.uint8), _planes(q.reshape(-1, 2, 4, 32), 2), _half(d), _half(dmin)]
    packed = np.concatenate([scales[:, :4] & 63 | scales[:, 4:] >> 4 << 6, minima[:, :4] & 63 | minima[:, 4:] >> 4 << 6,
                             scales[:, 4:] & 15 | (minima[:, 4:] & 15) << 4], axis=1).astype(np.uint8)
    high = [_planes((q >> 4).reshape(-1, 1, 8, 32), 1)] if name == "Q5_K" else []
    return [_half(d), _half(dmin), packed, *high, _planes((q & 15).reshape(-1, 4, 2, 32), 4)]


# ---- dequantisation: bytes [rows, row bytes] -> float32 [rows, columns]
def dequantize(name, raw):
    rows = raw.shape[0]
    raw = np.ascontiguousarray(raw)
    if name == "F32":
        return raw.view("<f4").reshape(rows, -1)
    if name == "F16":
        return raw.view("<f2").astype(np.float32).reshape(rows, -1)
    if name == "BF16":
        return (raw.view("<u2").astype(np.uint32) << 16).view(np.float32).reshape(rows, -1)
    b = raw.reshape(-1, TYPES[name][2])
    half = lambda start: np.ascontiguousarray(b[:, start:start + 2]).view("<f2").astype(np.float32)
    if name == "Q8_0":
        values = b[:, 2:].view(np.int8).astype(np.float32) * half(0)
    elif name in ("Q4_0", "Q5_0"):
        values = (_read_nibbles(b, 2, name).astype(np.float32) - (8 if name == "Q4_0" else 16)) * half(0)
    elif name in ("Q4_1", "Q5_1"):
        values = _read_nibbles(b, 4, name).astype(np.float32) * half(0) + half(2)
    else:
        d, dmin, scales, minima, q = integers(name, b)
        group = (len(b), -1, 256 // scales.shape[1])
        values = (d * scales.astype(np.float32))[:, :, None] * q.astype(np.float32).reshape(group)
        if minima is not None:
            values = values - (dmin * minima.astype(np.float32))[:, :, None]
    return values.astype(np.float32).reshape(rows, -1)


def _read_nibbles(b, at, name):
    """Integers of a block that may have a fifth bit for each value before its nibbles."""
    fifth = 0
    if name.startswith("Q5"):
        fifth, at = np.unpackbits(b[:, at:at + 4], axis=1, bitorder="little").astype(np.int32) << 4, at + 4
    return np.concatenate([b[:, at:] & 15, b[:, at:] >> 4], axis=1) | fifth


def _read_planes(raw, parts, bits):
    """The inverse of _planes: [blocks, values in order]."""
    raw = raw.reshape(len(raw), parts, 1, -1).astype(np.int32)
    return ((raw >> (bits * np.arange(8 // bits))[:, None]) & ((1 << bits) - 1)).reshape(len(raw), -1)


def integers(name, b):
    """Super-blocks [blocks, bytes] -> (scale, minimum, factors of both for each group, values as integers)."""
    half = lambda start: np.ascontiguousarray(b[:, start:start + 2]).view("<f2").astype(np.float32)
    if name == "Q2_K":
        return half(80), half(82), b[:, :16] & 15, b[:, :16] >> 4, _read_planes(b[:, 16:80], 2, 2)
    if name == "Q3_K":
        q = _read_planes(b[:, 32:96], 2, 2) | _read_planes(b[:, :32], 1, 1) << 2
        scales = _read_planes(b[:, 96:104], 1, 4) | _read_planes(b[:, 104:108], 1, 2) << 4
        return half(108), None, scales - 32, None, q - 4
    if name == "Q6_K":
        q = _read_planes(b[:, :128], 2, 4) | _read_planes(b[:, 128:192], 2, 2) << 4
        return half(208), None, b[:, 192:208].view(np.int8), None, q - 32
    top, low = b[:, 4:12] >> 6 << 4, np.concatenate([b[:, 12:16] & 15, b[:, 12:16] >> 4], axis=1)
    scales = np.concatenate([b[:, 4:8] & 63, low[:, :4] | top[:, :4]], axis=1)
    minima = np.concatenate([b[:, 8:12] & 63, low[:, 4:] | top[:, 4:]], axis=1)
    q = _read_planes(b[:, -128:], 4, 4)
    return half(0), half(2), scales, minima, q | _read_planes(b[:, 16:48], 1, 1) << 4 if name == "Q5_K" else q


# ---- writing
def _text(s):
    data = s.encode() if isinstance(s, str) else s
    return struct.pack("<Q", len(data)) + data


def _value(v):
    """(type id, bytes) of a metadata value; integers become u32, or u64 where they need it."""
    if isinstance(v, bool):
        return 7, struct.pack("<?", v)
    if isinstance(v, int):
        return (4, struct.pack("<I", v)) if 0 <= v < 2**32 else (10, struct.pack("<Q", v))
    if isinstance(v, float):
        return 6, struct.pack("<f", v)
    if isinstance(v, (str, bytes)):
        return 8, _text(v)
    if v and isinstance(v[0], int):  # arrays of integers are i32, as token types are
        kind, data = 5, b"".join(struct.pack("<i", x) for x in v)
    else:
        kind, data = _value(v[0])[0], b"".join(_value(x)[1] for x in v)
    return 9, struct.pack("<IQ", kind, len(v)) + data


def write(path, metadata, tensors, version=3):
    """`tensors`: name -> (type name, float32 array of 1 or 2 dimensions)."""
    head = struct.pack("<IIQQ", 0x46554747, version, len(tensors), len(metadata))
    for key, value in metadata.items():
        kind, data = _value(value)
        head += _text(key) + struct.pack("<I", kind) + data
    blobs, offset = [], 0
    for name, (kind, array) in tensors.items():
        data = quantize(kind, array.reshape(-1, array.shape[-1])).tobytes()
        dims = array.shape[::-1]
        head += _text(name) + struct.pack(f"<I{len(dims)}QIQ", len(dims), *dims, TYPES[kind][0], offset)
        data += bytes(-len(data) % ALIGNMENT)
        blobs.append(data)
        offset += len(data)
    with open(path, "wb") as out:
        out.write(head + bytes(-len(head) % ALIGNMENT))
        for blob in blobs:
            out.write(blob)


# ---- reading
class File:
    """metadata: key -> value; tensors: name -> (type name, shape, bytes [rows, row bytes])."""

    def __init__(self, path):
        self.data = np.memmap(path, np.uint8, "r")
        self.at = 0
        magic, version, tensors, keys = self._take("<IIQQ")
        assert magic == 0x46554747 and version in (2, 3), (magic, version)
        self.metadata = {}
        for _ in range(keys):
            key = self._string()
            self.metadata[key] = self._read(self._take("<I")[0])
        table = []
        for _ in range(tensors):
            name = self._string()
            dims = self._take(f"<{self._take('<I')[0]}Q")
            kind, offset = self._take("<IQ")
            table.append((name, dims, NAMES[kind], offset))
        align = self.metadata.get("general.alignment", ALIGNMENT)
        start = -(-self.at // align) * align
        self.tensors = {}
        for name, dims, kind, offset in table:
            _, block, size = TYPES[kind]
            row = dims[0] // block * size
            rows = int(np.prod(dims[1:], dtype=np.int64))
            raw = self.data[start + offset:start + offset + rows * row].reshape(rows, row)
            self.tensors[name] = (kind, dims[::-1], raw)

    def _take(self, form):
        size = struct.calcsize(form)
        values = struct.unpack(form, self.data[self.at:self.at + size].tobytes())
        self.at += size
        return values

    def _string(self):
        size = self._take("<Q")[0]
        self.at += size
        return self.data[self.at - size:self.at].tobytes().decode()

    def _read(self, kind):
        if kind == 8:
            return self._string()
        if kind == 9:
            element, count = self._take("<IQ")
            return [self._read(element) for _ in range(count)]
        return self._take("<" + {0: "B", 1: "b", 2: "H", 3: "h", 4: "I", 5: "i", 6: "f", 7: "?", 10: "Q", 11: "q",
                                 12: "d"}[kind])[0]

    def floats(self, name):
        kind, shape, raw = self.tensors[name]
        return dequantize(kind, raw).reshape(shape)
