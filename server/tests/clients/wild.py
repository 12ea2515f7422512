"""Queries over files as programs export them, against what Python's csv and json read in the same files.

Two seeds make 250 files: one is fixed, one is fresh and printed. `LAZURITE_WILD_SEED` repeats one.
"""

import csv
import io
import json
import os
import random

from azure.storage.blob import BlobServiceClient, DelimitedJsonDialect, DelimitedTextDialect

import harness
from harness import CONNECTION, ONCE, unique

service = BlobServiceClient.from_connection_string(CONNECTION, **ONCE)

MARK = b"\xef\xbb\xbf"
ALL = "SELECT * FROM BlobStorage"
COUNT = "SELECT COUNT(*) FROM BlobStorage"
LINES = DelimitedJsonDialect(delimiter="\n")


class Dialect:
    """The separators, the quote and the escape of a file; an empty one is none."""

    def __init__(self, column=",", record="\n", quote='"', escape=""):
        self.column, self.record, self.quote, self.escape = column, record, quote, escape

    def __repr__(self):
        return f"Dialect{(self.column, self.record, self.quote, self.escape)}"

    def of_client(self):
        return DelimitedTextDialect(
            delimiter=self.column, quotechar=self.quote, lineterminator=self.record, escapechar=self.escape
        )

    def of_python(self):
        """csv ends every record at CR and LF, so `swapped` has put LF where the record separator was."""
        quoting = csv.QUOTE_MINIMAL if self.quote else csv.QUOTE_NONE
        swap = str.maketrans(self.record + "\n", "\n" + self.record) if len(self.record) == 1 else {}
        of = lambda character: character.translate(swap) or None
        return {"delimiter": of(self.column), "quotechar": of(self.quote), "escapechar": of(self.escape), "quoting": quoting}

    def swapped(self, text):
        return text.translate(str.maketrans(self.record + "\n", "\n" + self.record)) if len(self.record) == 1 else text


STANDARD = Dialect()
DIALECTS = [
    STANDARD,
    Dialect(column="\t"),
    Dialect(column=";", record="\r\n"),
    Dialect(column="|", quote="'"),
    Dialect(record="\r"),
    Dialect(column=":", record="$"),
    Dialect(column="\t", quote="", escape="\\"),
    Dialect(quote="", escape="\\", record="|"),
    Dialect(escape="\\"),
    Dialect(column=";", record="~", quote="'", escape="^"),
]


def read(dialect, content):
    """The records that csv finds. Latin-1 keeps every byte."""
    text = dialect.swapped(content.removeprefix(MARK).decode("latin-1"))
    rows = csv.reader(io.StringIO(text, newline=""), **dialect.of_python())
    return [[dialect.swapped(value).encode("latin-1") for value in row] for row in rows if row]


def write(rows):
    """The records as csv writes them, with quotes where they are needed."""
    lines = [written([value.decode("latin-1") for value in row]) for row in rows]
    return "".join(line + "\n" for line in lines).encode("latin-1")


def written(row, **settings):
    """One record without its end. csv quotes or escapes the bytes of the end: both CR and LF."""
    out = io.StringIO(newline="")
    csv.writer(out, lineterminator="\r\n", **settings).writerow(row)
    return out.getvalue().removesuffix("\r\n")


WORDS = [b"", b"a", b"0012", b"-1.50", b"Oslo", b"caf\xe9", "café".encode(), "日本".encode(), "\U0001f600".encode(), b"\x80\xff", b" x ", b"NULL"]


class Files:
    def __init__(self, seed):
        self.random = random.Random(seed)

    def word(self):
        return b"".join(self.random.choices(WORDS, k=self.random.choice([1, 1, 1, 2, 3])))

    def special(self, dialect, is_quoted):
        """Bytes that mean something in the dialect."""
        parts = [dialect.column, dialect.quote, dialect.escape, dialect.record, "'", '"', "\\"]
        # Outside of quotes csv ends a record at each CR and LF.
        parts += ["\n", "\r", "\r\n"] if is_quoted else []
        return self.random.choice([part for part in parts if part]).encode()

    def value(self, dialect, quotes_all):
        """A value as a program writes it that knows the rules of the dialect."""
        value = self.word()
        while self.random.random() < 0.3:
            value += self.special(dialect, dialect.quote != "") + self.word()
        settings = dialect.of_python()
        end = "x"
        if dialect.quote:
            settings["quoting"] = csv.QUOTE_ALL if quotes_all else csv.QUOTE_MINIMAL
            # A writer that escapes does not double its quotes.
            settings["doublequote"] = not dialect.escape
            end = dialect.quote + "x" + dialect.quote if quotes_all else "x"
        # A second value, because csv quotes a single empty one.
        text = dialect.swapped(written([dialect.swapped(value.decode("latin-1")), "x"], **settings))
        return text.encode("latin-1").removesuffix((dialect.column + end).encode())

    def careless(self, dialect):
        """A value of a program that does not know the rules."""
        value = self.word()
        while self.random.random() < 0.3:
            value += self.special(dialect, False) + self.word()
        return value

    def delimited(self, dialect):
        """A file, with everything that is found at the ends of files and lines."""
        quotes_all, is_careless = self.random.random() < 0.3, self.random.random() < 0.3
        width = self.random.choice([1, 2, 3, 8])
        records = []
        for _ in range(self.random.choice([0, 1, 2, 5, 40])):
            columns = width if self.random.random() < 0.8 else self.random.randint(1, 10)
            of = self.careless if is_careless else lambda dialect: self.value(dialect, quotes_all)
            records.append(dialect.column.encode().join(of(dialect) for _ in range(columns)))
            if self.random.random() < 0.1:
                records.append(b"")
        ends = [dialect.record.encode()]
        if dialect.record == "\n":
            ends.append(b"\r\n")
        end = self.random.choice(ends)
        content = end.join(records)
        if self.random.random() < 0.7 or content.endswith((b"\\", b"^")):
            content += end
        return (MARK if self.random.random() < 0.2 else b"") + content

    def number(self):
        digits = "".join(self.random.choices("0123456789", k=self.random.choice([1, 5, 17, 20, 40]))).lstrip("0") or "0"
        form = self.random.choice(["{}", "-{}", "{}.10", "0.{}", "{}e400", "{}E-5", "-{}.0"])
        return form.format(digits)

    def json(self, depth=0):
        kind = self.random.random()
        if kind < 0.5:
            return self.number()
        if kind < 0.75:
            return json.dumps(self.word().decode("latin-1") + self.random.choice(['"', "\\", "\n", "\ud83d", "/", ""]))
        if kind < 0.85 or depth > 2:
            return self.random.choice(["null", "true", "false"])
        items = [self.json(depth + 1) for _ in range(self.random.randint(0, 3))]
        if self.random.random() < 0.5:
            return "[" + " , ".join(items) + "]"
        return "{" + ", ".join(f'"m{n}" :{item}' for n, item in enumerate(items)) + "}"

    def documents(self):
        names = self.random.sample(["a", "b", "a b", "é", "id", "日"], k=4)
        document = lambda: "{" + ", ".join(f'"{name}": {self.json()}' for name in names) + "}"
        documents = [document() for _ in range(self.random.choice([0, 1, 3, 20]))]
        if self.random.random() < 0.3:
            return ("[" + ",\n ".join(documents) + "]").encode()
        mark = MARK if self.random.random() < 0.2 else b""
        return mark + self.random.choice(["\n", "\r\n", "\n\n"]).join(documents).encode()


def read_json(text):
    """Documents with their members in order and the digits of their numbers."""
    number = lambda digits: ("number", digits)
    return json.loads(text, parse_int=number, parse_float=number, object_pairs_hook=lambda members: ("object", members))


class WildTest(harness.Test):
    @classmethod
    def setUpClass(cls):
        cls.container = service.create_container(unique("wild"))

    def setUp(self):
        given = os.environ.get("LAZURITE_WILD_SEED")
        self.seeds = [int(given)] if given else [58, int.from_bytes(os.urandom(4), "big")]
        print("seeds", *self.seeds, flush=True)

    def blob(self, content):
        blob = self.container.get_blob_client(unique("blob"))
        blob.upload_blob(content)
        return blob

    def ask(self, blob, sql, input, output):
        errors = []
        answer = blob.query_blob(sql, blob_format=input, output_format=output, on_error=errors.append).readall()
        self.assertEqual([(error.error, error.description, error.position) for error in errors], [])
        return answer

    def test_delimited_text(self):
        for seed in self.seeds:
            files = Files(seed)
            for number in range(100):
                dialect = DIALECTS[number % len(DIALECTS)]
                content = files.delimited(dialect)
                with self.subTest(seed=seed, number=number, dialect=dialect, content=content):
                    self.compare(dialect, content)

    def compare(self, dialect, content):
        input, standard = dialect.of_client(), STANDARD.of_client()
        blob, expected = self.blob(content), read(dialect, content)
        self.assertEqual(self.ask(blob, ALL, input, standard), write(expected))
        self.assertEqual(self.ask(blob, COUNT, input, standard), b"%d\n" % len(expected))
        if expected and min(map(len, expected)) > 1:
            columns = write([row[1], row[0]] for row in expected)
            self.assertEqual(self.ask(blob, "SELECT _2, _1 FROM BlobStorage", input, standard), columns)
        # A record of one empty value cannot be written without a quote.
        if dialect.quote or [b""] not in expected:
            again = self.ask(blob, ALL, input, input)
            self.assertEqual(self.ask(self.blob(again), ALL, input, standard), write(expected))

    def test_json(self):
        for seed in self.seeds:
            files = Files(seed)
            for number in range(25):
                content = files.documents()
                with self.subTest(seed=seed, number=number, content=content):
                    text = content.removeprefix(MARK).decode()
                    lines = [text] if text.startswith("[") else text.splitlines()
                    documents = [read_json(line) for line in lines if line]
                    if text.startswith("["):
                        documents = documents[0]
                    blob = self.blob(content)
                    answer = self.ask(blob, ALL, LINES, LINES)
                    self.assertEqual([read_json(line) for line in answer.decode().splitlines()], documents)
                    self.assertEqual(self.ask(self.blob(answer), ALL, LINES, LINES), answer)
                    self.assertEqual(self.ask(blob, COUNT, LINES, STANDARD.of_client()), b"%d\n" % len(documents))


if __name__ == "__main__":
    harness.main()
