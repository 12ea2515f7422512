"""Gives classes of Hadoop their own names again, in a jar whose makers put them below a package of theirs."""

import struct
import zipfile

# Bytes of a constant in a class file, with its tag, by the tag. A text, of tag 1, has a length of its own.
SIZES = {3: 5, 4: 5, 5: 9, 6: 9, 7: 3, 8: 3, 9: 5, 10: 5, 11: 5, 12: 5, 15: 4, 16: 3, 17: 5, 18: 5, 19: 3, 20: 3}
TEXT = 1
# A long and a double take two numbers of the table of constants.
WIDE = (5, 6)


def unshaded(jar, target, package, prefix):
    """Copies the classes of `package` from `jar` to `target`, without the prefix of their names and of other classes of Hadoop."""
    pairs = [(prefix + "org.apache.hadoop", "org.apache.hadoop")]
    pairs += [(old.replace(".", "/"), new.replace(".", "/")) for old, new in pairs]
    start = (prefix + package).replace(".", "/") + "/"
    with zipfile.ZipFile(jar) as source, zipfile.ZipFile(target, "w", zipfile.ZIP_DEFLATED) as out:
        for name in source.namelist():
            if name.startswith(start) and name.endswith(".class"):
                out.writestr(name.removeprefix(prefix.replace(".", "/")), renamed(source.read(name), pairs))


def renamed(data, pairs):
    """A class file with other texts in its constants."""
    (count,) = struct.unpack(">H", data[8:10])
    out, at, number = [data[:10]], 10, 1
    while number < count:
        tag = data[at]
        if tag == TEXT:
            (length,) = struct.unpack(">H", data[at + 1 : at + 3])
            at += 3 + length
            text = data[at - length : at]
            for old, new in pairs:
                text = text.replace(old.encode(), new.encode())
            out.append(bytes([TEXT]) + struct.pack(">H", len(text)) + text)
        else:
            out.append(data[at : at + SIZES[tag]])
            at += SIZES[tag]
        number += 2 if tag in WIDE else 1
    return b"".join(out) + data[at:]
