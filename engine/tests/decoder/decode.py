"""Prints the rows of a data directory, closed or left by a process that died. Written from FORMAT.md alone.

Usage: decode.py DIRECTORY. One line a row: keyspace, key and value, the last two in hex. At the end, on the standard
error, how often each part of the format was met."""

import sys
from collections import Counter
from pathlib import Path

from primitives import MASK, Reader, lz4, word, xxh3, zstd

DIRECTORY = Path(sys.argv[1])
HEADER, DELETE, PUT, LARGE, DELETE_RANGE = 48, 1, 2, 3, 4
names, flushed, sstables, logs, segments = {}, {}, {}, {}, {}
newest, deletions, met = {}, [], Counter()


def checksum(number, offset, data):
    return xxh3(data, number * 0x9E3779B97F4A7C15 & MASK ^ offset)


def read_file(name, kind, number):
    data = (DIRECTORY / name).read_bytes()
    assert data[:8] == b"LAZURITE" and (word(data, 8, 4), word(data, 12, 4)) == (kind, 5), name
    assert word(data, 32) == number and word(data, 40) == checksum(number, 0, data[:40]), name
    return data, word(data, 16) ^ word(data, 24)


def read_manifest():
    line = (DIRECTORY / "CURRENT").read_bytes()
    _, version, name, length, check = line.decode().split()
    assert version == "5" and checksum(0, 0, line[:-17]) == int(check, 16)
    number, at = int(name.removeprefix("MANIFEST-")), HEADER
    data, store = read_file(name, 3, number)
    while at + 16 <= len(data):
        head, edit = data[at : at + 8], data[at + 16 : at + 16 + word(data, at, 4)]
        if word(data, at + 8) != checksum(number ^ store, at, head + edit):
            break
        assert word(head, 4, 4) == checksum(number ^ store, at, head[:4]) & 0xFFFFFFFF
        apply_edit(Reader(edit))
        at += 16 + len(edit)
    assert at >= int(length)


def apply_edit(edit):
    while not edit.is_over():
        tag = edit.integer(1)
        first = edit.varint() if tag != 11 else None
        if tag == 3:
            names[first], flushed[first] = edit.bytes().decode(), 0
        elif tag == 4:
            _, number, sstables[first, number], *_ = *edit.varints(3), edit.take(8), edit.bytes(), edit.optional()
            edit.varints(2 * edit.varints(6)[5])
        elif tag == 5:
            del sstables[first, edit.varint()]
        elif tag == 6:
            flushed[first] = edit.varint()
        elif tag == 7:
            logs[first] = edit.varint()
        elif tag == 9:
            segments[first] = edit.varint(), edit.take(9)
        elif tag in (8, 10):
            del (logs if tag == 8 else segments)[first]
        elif tag == 12:
            edit.varint()


def note(keyspace, sequence, kind, key, value):
    if kind == DELETE_RANGE:
        deletions.append((keyspace, key, value, sequence))
    elif newest.get((keyspace, key), (0,))[0] < sequence:
        newest[keyspace, key] = (sequence, kind, value)


def read_sstable(keyspace, number, size):
    data, _ = read_file(f"{number:06}.sst", 2, number)
    footer = Reader(data[-112:])
    root, _, tombstones = [(footer.integer(8), footer.integer(8)) for _ in range(3)]
    entries, depth = word(footer.data, 48), word(footer.data, 80, 4)
    assert len(data) == size and footer.data[104:] == b"LZSSTEND"
    assert checksum(number, size - 112, footer.data[:96]) == word(footer.data, 96)
    met["partitioned indexes"] += depth == 2

    def block(offset, length):
        payload, trailer = data[offset : offset + length], Reader(data, offset + length)
        compression, size, check = trailer.integer(1), trailer.integer(4), trailer.integer(8)
        assert check == checksum(number, offset, data[offset : offset + length + 5])
        met[("stored", "zstd", "lz4")[compression]] += 1
        payload = (lambda: payload, lambda: zstd(payload, size), lambda: lz4(payload))[compression]()
        assert len(payload) == size
        return payload

    def read_index(index):
        count = word(index, len(index) - 4, 4)
        handles = Reader(index, 8 * count)
        return [(handles.integer(8), handles.integer(4)) for _ in range(count)]

    def read_data(data):
        entries, values, key = [], Reader(data, word(data, len(data) - 12, 4)), b""
        reader = Reader(data[: values.at])
        while not reader.is_over():
            shared, rest, length, number = reader.varints(4)
            key = key[:shared] + reader.take(rest)
            note(keyspace, number // 4, number % 4, key, values.take(length))
            entries.append(key)
        return len(entries)

    handles = [root] if entries else []
    for _ in range(depth if entries else 0):
        handles = [below for handle in handles for below in read_index(block(*handle))]
    assert entries == sum(read_data(block(*handle)) for handle in handles)
    fragments = Reader(block(*tombstones)) if tombstones[1] else Reader(b"\0")
    for _ in range(fragments.varint()):
        start, end, sequences = fragments.bytes(), fragments.optional(), fragments.varints(fragments.varint())
        note(keyspace, sequences[0], DELETE_RANGE, start, end)
        met["range tombstones"] += 1


def read_logs():
    last = None
    for number, end in sorted(logs.items()):
        data, store = read_file(f"{number:06}.wal", 1, number)
        at, base = HEADER, None
        while at + 16 <= (end or len(data)):
            length, kind = divmod(word(data, at + 4, 4), 4)
            frame = data[at : at + 16 + length]
            if word(frame, 0, 4) != checksum(number ^ store, at, frame[4:]) & 0xFFFFFFFF:
                break
            if kind == 2:
                base, previous = word(frame, 16), (word(frame, 32), word(frame, 40))
                if last and last != previous:
                    return
                met["log segments"] += 1
            else:
                read_batch(Reader(frame[16:]), base + word(frame, 8, 4))
            at += len(frame)
        last = (number, at) if base is not None else last


def read_batch(changes, sequence):
    while not changes.is_over():
        kind, keyspace, key = changes.integer(1), changes.varint(), changes.bytes()
        value = changes.optional() if kind == DELETE_RANGE else changes.bytes() if kind != DELETE else None
        if sequence > flushed[keyspace]:
            note(keyspace, sequence, kind, key, value)
            met["changes of the log"] += 1
        elif kind == LARGE:
            pointer = Reader(value).varints(4)
            met["values moved since the log"] += not (DIRECTORY / f"{pointer[3]:06}.vlog").exists()
        sequence += 1


def read_large(pointer):
    _, length, extents = pointer.varints(3)
    value, end = b"", 0
    for _ in range(extents):
        number, at, size = pointer.varints(3)
        data, _ = read_file(f"{number:06}.vlog", 4, number)
        end += size
        while len(value) < end:
            chunk = data[at + 12 : at + 12 + word(data, at, 4)]
            assert word(data, at + 4) == checksum(number, at, data[at : at + 4] + chunk)
            value, at = value + chunk, at + 12 + len(chunk)
    assert len(value) == end == length
    met["extents"] += extents > 1
    return value


read_manifest()
for (keyspace, number), size in sstables.items():
    read_sstable(keyspace, number, size)
read_logs()
for (keyspace, key), (sequence, kind, value) in newest.items():
    hiding = [d for d in deletions if d[0] == keyspace and d[1] <= key and (d[2] is None or key < d[2])]
    if kind != DELETE and all(deleted < sequence for *_, deleted in hiding):
        value = read_large(Reader(value)) if kind == LARGE else value
        print(names[keyspace], key.hex(), value.hex())
print(*(f"{count} {part}" for part, count in met.items() if count), sep="\n", file=sys.stderr)
