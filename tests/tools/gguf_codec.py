"""GGUF files in numpy: a reader, a writer, and plain quantisation and dequantisation of the tensor types that the
native engine runs. Written from the format's description, apart from the C++ code, so that tests compare two minds."""
import struct

import numpy as np

# name -> (id, elements per block, bytes per block)
TYPES = {"F32": (0, 1, 4), "F16": (1, 1, 2), "Q4_0": (2, 32, 18), "Q4_1": (3, 32, 20), "Q8_0": (8, 32, 34),
         "Q6_K": (14, 256, 210), "BF16": (30, 1, 2)}
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
    block = TYPES[name][1]
    b = x.reshape(-1, block)
    if name == "Q6_K":
        return _quantize_q6_k(b).reshape(rows, -1)
    if name == "Q8_0":
        scale = (np.abs(b).max(axis=1, keepdims=True) / 127).astype("<f2")
        q = np.rint(b / np.maximum(scale.astype(np.float32), 1e-12)).clip(-127, 127).astype(np.int8)
        parts = [_half(scale), q.view(np.uint8)]
    elif name == "Q4_0":
        scale = (np.abs(b).max(axis=1, keepdims=True) / 8).astype("<f2")
        q = np.rint(b / np.maximum(scale.astype(np.float32), 1e-12)).clip(-8, 7).astype(np.int32) + 8
        parts = [_half(scale), _nibbles(q)]
    else:
        low, high = b.min(axis=1, keepdims=True), b.max(axis=1, keepdims=True)
        scale, low = ((high - low) / 15).astype("<f2"), low.astype("<f2")
        q = np.rint((b - low.astype(np.float32)) / np.maximum(scale.astype(np.float32), 1e-12))
        parts = [_half(scale), _half(low), _nibbles(q.clip(0, 15).astype(np.int32))]
    return np.concatenate([p.reshape(len(b), -1) for p in parts], axis=1).reshape(rows, -1)


def _quantize_q6_k(b):
    groups = b.reshape(-1, 16, 16)
    wanted = np.abs(groups).max(axis=2) / 31
    d = (wanted.max(axis=1, keepdims=True) / 127).astype("<f2")
    scales = np.rint(wanted / np.maximum(d.astype(np.float32), 1e-12)).clip(-128, 127)
    step = (d.astype(np.float32) * scales)[:, :, None]
    q = np.rint(groups / np.where(step == 0, 1, step)).clip(-32, 31).astype(np.int32) + 32
    q = q.reshape(-1, 2, 4, 32)  # halves, planes, values
    low, high = q & 15, q >> 4
    ql = np.concatenate([low[:, :, 0] | (low[:, :, 2] << 4), low[:, :, 1] | (low[:, :, 3] << 4)], axis=2)
    qh = high[:, :, 0] | (high[:, :, 1] << 2) | (high[:, :, 2] << 4) | (high[:, :, 3] << 6)
    parts = [ql.astype(np.uint8), qh.astype(np.uint8), scales.astype(np.int8).view(np.uint8), _half(d)]
    return np.concatenate([p.reshape(len(b), -1) for p in parts], axis=1)


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
    elif name == "Q4_0":
        values = (np.concatenate([b[:, 2:] & 15, b[:, 2:] >> 4], axis=1).astype(np.float32) - 8) * half(0)
    elif name == "Q4_1":
        values = np.concatenate([b[:, 4:] & 15, b[:, 4:] >> 4], axis=1).astype(np.float32) * half(0) + half(2)
    else:
        ql = b[:, :128].reshape(-1, 2, 2, 32).astype(np.int32)
        qh = b[:, 128:192].reshape(-1, 2, 1, 32).astype(np.int32)
        scales = b[:, 192:208].view(np.int8).astype(np.float32) * half(208)
        low = np.concatenate([ql & 15, ql >> 4], axis=2)
        high = np.concatenate([(qh >> shift) & 3 for shift in (0, 2, 4, 6)], axis=2)
        q = ((low | (high << 4)) - 32).astype(np.float32).reshape(-1, 16, 16)
        values = scales[:, :, None] * q
    return values.astype(np.float32).reshape(rows, -1)


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
