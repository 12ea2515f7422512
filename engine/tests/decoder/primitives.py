"""What FORMAT.md takes as known: integers, XXH3-64, LZ4 blocks, zstd frames. Needs only the standard library and libzstd."""

import ctypes
import ctypes.util

MASK = 2**64 - 1
P32_1, P32_2, P32_3 = 0x9E3779B1, 0x85EBCA77, 0xC2B2AE3D
P64_1, P64_2, P64_3 = 0x9E3779B185EBCA87, 0xC2B2AE3D27D4EB4F, 0x165667B19E3779F9
P64_4, P64_5 = 0x85EBCA77C2B2AE63, 0x27D4EB2F165667C5
SECRET = bytes.fromhex(
    "b8fe6c3923a44bbe7c01812cf721ad1cded46de9839097db7240a4a4b7b3671f"
    "cb79e64eccc0e578825ad07dccff7221b8084674f743248ee03590e6813a264c"
    "3c2852bb91c300cb88d0658b1b532ea371644897a20df94e3819ef46a9deacd8"
    "a8fa763fe39c343ff9dcbbc7c70b4f1d8a51e04bcdb45931c89f7ec9d9787364"
    "eac5ac8334d3ebc3c581a0fffa1363eb170ddd51b7f0da49d316552629d4689e"
    "2b16be587d47a1fc8ff8b8d17ad031ce45cb3a8f95160428afd7fbcabb4b407e"
)


def word(data, at, size=8):
    return int.from_bytes(data[at : at + size], "little")


class Reader:
    def __init__(self, data, at=0):
        self.data, self.at = data, at

    def take(self, size):
        self.at += size
        assert self.at <= len(self.data), "cut short"
        return self.data[self.at - size : self.at]

    def integer(self, size):
        return word(self.take(size), 0, size)

    def varint(self):
        value = shift = 0
        while (byte := self.integer(1)) > 127:
            value, shift = value | (byte & 127) << shift, shift + 7
        return value | byte << shift

    def varints(self, count):
        return [self.varint() for _ in range(count)]

    def bytes(self):
        return self.take(self.varint())

    def optional(self):
        return self.bytes() if self.integer(1) else None

    def is_over(self):
        return self.at == len(self.data)


def fold(a, b):
    product = (a & MASK) * (b & MASK)
    return (product & MASK) ^ (product >> 64)


def avalanche(h):
    h &= MASK
    h = ((h ^ h >> 37) * 0x165667919E3779F9) & MASK
    return h ^ h >> 32


def avalanche64(h):
    h &= MASK
    h = ((h ^ h >> 33) * P64_2) & MASK
    h = ((h ^ h >> 29) * P64_3) & MASK
    return h ^ h >> 32


def mix(data, at, secret_at, seed):
    low, high = word(SECRET, secret_at) + seed, word(SECRET, secret_at + 8) - seed
    return fold(word(data, at) ^ low & MASK, word(data, at + 8) ^ high & MASK)


def xxh3(data, seed=0):
    """XXH3 with 64 bits."""
    n = len(data)
    if n == 0:
        return avalanche64(seed ^ word(SECRET, 56) ^ word(SECRET, 64))
    if n <= 3:
        combined = data[0] << 16 | data[n // 2] << 24 | data[-1] | n << 8
        return avalanche64(combined ^ (word(SECRET, 0, 4) ^ word(SECRET, 4, 4)) + seed)
    if n <= 8:
        seed ^= int.from_bytes((seed & 0xFFFFFFFF).to_bytes(4, "little"), "big") << 32
        h = word(data, n - 4, 4) + (word(data, 0, 4) << 32)
        h ^= (word(SECRET, 8) ^ word(SECRET, 16)) - seed & MASK
        h ^= (h << 49 | h >> 15) & MASK ^ (h << 24 | h >> 40) & MASK
        h = h * 0x9FB21C651E98DF25 & MASK
        h = (h ^ (h >> 35) + n) * 0x9FB21C651E98DF25 & MASK
        return h ^ h >> 28
    if n <= 16:
        low = word(data, 0) ^ (word(SECRET, 24) ^ word(SECRET, 32)) + seed & MASK
        high = word(data, n - 8) ^ (word(SECRET, 40) ^ word(SECRET, 48)) - seed & MASK
        swapped = int.from_bytes(low.to_bytes(8, "little"), "big")
        return avalanche(n + swapped + high + fold(low, high))
    h = n * P64_1
    if n <= 128:
        for i in range((n - 1) // 32 + 1):
            h += mix(data, 16 * i, 32 * i, seed) + mix(data, n - 16 * (i + 1), 32 * i + 16, seed)
        return avalanche(h)
    if n <= 240:
        h = avalanche(h + sum(mix(data, 16 * i, 16 * i, seed) for i in range(8)))
        h += sum(mix(data, 16 * i, 16 * i - 125, seed) for i in range(8, n // 16))
        return avalanche(h + mix(data, n - 16, 119, seed))
    return xxh3_long(data, seed)


def xxh3_long(data, seed):
    n = len(data)
    secret = b"".join(
        (word(SECRET, at) + (-seed if at % 16 else seed) & MASK).to_bytes(8, "little") for at in range(0, 192, 8)
    )
    acc = [P32_3, P64_1, P64_2, P64_3, P64_4, P32_2, P64_5, P32_1]

    def accumulate(at, secret_at):
        for i in range(8):
            lane = word(data, at + 8 * i)
            key = lane ^ word(secret, secret_at + 8 * i)
            acc[i ^ 1] = acc[i ^ 1] + lane & MASK
            acc[i] = acc[i] + (key & 0xFFFFFFFF) * (key >> 32) & MASK

    for stripe in range((n - 1) // 64):
        accumulate(64 * stripe, stripe % 16 * 8)
        if stripe % 16 == 15:
            for i in range(8):
                acc[i] = (acc[i] ^ acc[i] >> 47 ^ word(secret, 128 + 8 * i)) * P32_1 & MASK
    accumulate(n - 64, 121)
    pairs = (fold(acc[i] ^ word(secret, 11 + 8 * i), acc[i + 1] ^ word(secret, 19 + 8 * i)) for i in range(0, 8, 2))
    return avalanche(n * P64_1 + sum(pairs))


def lz4(data):
    """A block of LZ4."""
    out, at = bytearray(), 0

    def length(n):
        nonlocal at
        more = n == 15
        while more:
            n, more, at = n + data[at], data[at] == 255, at + 1
        return n

    while True:
        token, at = data[at], at + 1
        literals = length(token >> 4)
        out += data[at : at + literals]
        at += literals
        if at == len(data):
            return bytes(out)
        distance, at = word(data, at, 2), at + 2
        for _ in range(length(token & 15) + 4):
            out.append(out[-distance])


def zstd(data, size):
    """A frame of zstd that holds `size` bytes."""
    name = ctypes.util.find_library("zstd")
    if name is None:
        raise SystemExit("libzstd is missing (on Debian and Ubuntu: apt install libzstd1)")
    decompress = ctypes.CDLL(name).ZSTD_decompress
    decompress.restype = ctypes.c_size_t
    decompress.argtypes = [ctypes.c_char_p, ctypes.c_size_t, ctypes.c_char_p, ctypes.c_size_t]
    out = ctypes.create_string_buffer(size)
    assert decompress(out, size, data, len(data)) == size, "zstd"
    return out.raw
