"""Queries over the contents of blobs, from SQL to the last record of the answer."""

import csv
import io
import json
import pathlib

from azure.core import MatchConditions
from azure.storage.blob import (
    ArrowDialect,
    ArrowType,
    BlobServiceClient,
    DelimitedJsonDialect,
    DelimitedTextDialect,
    QuickQueryDialect,
)

import harness
from harness import CONNECTION, ONCE, unique

service = BlobServiceClient.from_connection_string(CONNECTION, **ONCE)

PEOPLE = b'name,age,city\nAnn,31,Oslo\nBob,27,"Rome, old"\nCid,,Oslo\n'
HEADER = DelimitedTextDialect(has_header=True)
PLAIN = DelimitedTextDialect()
DOCUMENTS = b'{"id":1,"tags":["a","b"],"w":[{"lat":41.8},{"lat":-3}]}\n{"id":2,"w":[]}\n'


class QueryTest(harness.Test):
    @classmethod
    def setUpClass(cls):
        cls.container = service.create_container(unique("con"))

    def blob(self, data):
        blob = self.container.get_blob_client(unique("blob"))
        blob.upload_blob(data)
        return blob

    def answer(self, data, sql, **formats):
        errors = []
        reader = self.blob(data).query_blob(sql, on_error=errors.append, **formats)
        answer = reader.readall()
        self.assertEqual(len(reader), len(data))
        return answer, [(e.error, e.is_fatal, e.position) for e in errors]

    def test_delimited_text(self):
        ask = lambda sql: self.answer(PEOPLE, sql, blob_format=HEADER, output_format=PLAIN)
        for sql, expected in (
            ("SELECT * FROM BlobStorage", PEOPLE[14:]),
            ("SELECT name, age FROM BlobStorage WHERE city = 'Oslo' AND age <> ''", b"Ann,31\n"),
            ("SELECT _3 FROM BlobStorage WHERE _1 LIKE 'B%'", b'"Rome, old"\n'),
            ("SELECT COUNT(*) FROM BlobStorage WHERE age IN ('27', '31')", b"2\n"),
            ("SELECT UPPER(name) FROM BlobStorage LIMIT 1", b"ANN\n"),
            ("SELECT CAST(age AS INT) + 1 FROM BlobStorage WHERE age BETWEEN '1' AND '9'", b"32\n28\n"),
        ):
            with self.subTest(sql):
                self.assertEqual(ask(sql), (expected, []))
        # Without a word on it, the answer is as the blob.
        self.assertEqual(self.answer(PEOPLE, "SELECT * FROM BlobStorage", blob_format=HEADER), (PEOPLE, []))
        self.assertEqual(self.answer(PEOPLE, "SELECT * FROM BlobStorage"), (PEOPLE, []))
        self.assertEqual(self.answer(b"", "SELECT * FROM BlobStorage"), (b"", []))

    def test_dialects(self):
        odd = DelimitedTextDialect(delimiter=";", quotechar="'", lineterminator=".", escapechar="\\")
        answer = self.answer(PEOPLE, "SELECT _1, _3 || ';' FROM BlobStorage WHERE _2 <> ''", output_format=odd)
        self.assertEqual(answer, (b"name;'city;'.Ann;'Oslo;'.Bob;'Rome, old;'.", []))
        again = self.answer(answer[0], "SELECT _2, _1 FROM BlobStorage", blob_format=odd, output_format=PLAIN)
        self.assertEqual(again, (b'city;,name\nOslo;,Ann\n"Rome, old;",Bob\n', []))
        excel = self.answer(b"a\tb\r\n1\t2\r\n", "SELECT _2 FROM BlobStorage", blob_format=csv.excel_tab)
        self.assertEqual(excel, (b"b\r\n2\r\n", []))
        by_name = self.answer(
            PEOPLE,
            "SELECT * FROM BlobStorage LIMIT 1",
            blob_format=QuickQueryDialect.DelimitedText,
            output_format=QuickQueryDialect.DelimitedJson,
        )
        self.assertEqual(by_name, (b'{"_1":"name","_2":"age","_3":"city"}\n', []))

    def test_separators_and_escapes_are_those_of_the_request(self):
        escaped = DelimitedTextDialect(quotechar="", escapechar="\\")
        content = b"a\\,b,c\\\\\nd,e\\\n\n"
        ask = lambda content, sql, input, output: self.answer(content, sql, blob_format=input, output_format=output)
        all_ = "SELECT * FROM BlobStorage"
        self.assertEqual(ask(content, all_, escaped, PLAIN), (b'"a,b",c\\\nd,"e\n"\n', []))
        self.assertEqual(ask(content, all_, escaped, escaped), (content, []))
        both = DelimitedTextDialect(escapechar="\\")
        self.assertEqual(ask(b'a\\,b,"c\\"d"\n', all_, both, PLAIN), (b'"a,b","c""d"\n', []))
        windows = DelimitedTextDialect(lineterminator="\r\n")
        self.assertEqual(ask(b"a,b\nc\r\nd,e\rf", "SELECT _2 FROM BlobStorage", windows, PLAIN), (b'"b\nc"\n"e\rf"\n', []))
        long = DelimitedTextDialect(delimiter="::", lineterminator="--\n")
        self.assertEqual(ask(b"a:b::c\nd--\n", all_, long, PLAIN), (b'a:b,"c\nd"\n', []))
        self.assertEqual(ask(b'a:b,"c\nd"\n', all_, PLAIN, long), (b'"a:b"::"c\nd"--\n', []))

    def test_json(self):
        lines = DelimitedJsonDialect(delimiter="\n")
        ask = lambda sql, output=lines: self.answer(DOCUMENTS, sql, blob_format=lines, output_format=output)
        for sql, expected in (
            ("SELECT * FROM BlobStorage", DOCUMENTS),
            ("SELECT lat FROM BlobStorage[*].w[*] WHERE lat > 0", b'{"lat":41.8}\n'),
            ("SELECT id, tags[1] t FROM BlobStorage[*] WHERE tags IS NOT MISSING", b'{"id":1,"t":"b"}\n'),
            ("SELECT MAX(id) m FROM BlobStorage", b'{"m":2}\n'),
        ):
            with self.subTest(sql):
                self.assertEqual(ask(sql), (expected, []))
        self.assertEqual(ask("SELECT id, w FROM BlobStorage LIMIT 1", PLAIN), (b'1,"[{""lat"":41.8},{""lat"":-3}]"\n', []))
        people = self.answer(PEOPLE, "SELECT name, age a FROM BlobStorage LIMIT 1", blob_format=HEADER, output_format=lines)
        self.assertEqual(json.loads(people[0]), {"name": "Ann", "a": "31"})

    def test_records_that_fail_and_contents_that_do(self):
        answer = self.answer(b"100,pizza\n7\n300,400\n", "SELECT _1 FROM BlobStorage WHERE _2 > 250")
        self.assertEqual(answer, (b"300\n", [("InvalidTypeConversion", False, 0), ("InvalidColumnOrdinal", False, 10)]))
        answer = self.answer(PEOPLE, "SELECT * FROM BlobStorage", blob_format=DelimitedJsonDialect(delimiter="\n"))
        self.assertEqual(answer, (b"", [("ParseError", True, 0)]))

    def test_errors_of_documents_and_too_many_errors(self):
        lines = DelimitedJsonDialect(delimiter="\n")
        half = b'{"id":1,"a":"\\ud83d"}\n{"id":02}\n{"id":3}\n'
        ask = lambda sql, output: self.answer(half, sql, blob_format=lines, output_format=output)
        failed = [("ParseError", True, 22)]
        self.assertEqual(ask("SELECT id FROM BlobStorage", PLAIN), (b"1\n", failed))
        self.assertEqual(ask("SELECT * FROM BlobStorage", lines), (half[:22], failed))
        self.assertEqual(ask("SELECT a FROM BlobStorage WHERE id = 1", PLAIN), (b"", [("InvalidUtf8", False, 0), *failed]))
        answer, errors = self.answer(b"1,2\n" + b"x\n" * 2000, "SELECT _2 FROM BlobStorage")
        self.assertEqual((answer, len(errors), errors[-1]), (b"2\n", 1001, ("QueryLimitExceeded", True, 4 + 2000)))

    def test_values_of_text_are_bytes_and_not_null(self):
        data = b"caf\xe9,1,\nb,2,x\n"
        for sql, expected in (
            ("SELECT _2, _1 FROM BlobStorage WHERE _3 = ''", b"1,caf\xe9\n"),
            ("SELECT _2 FROM BlobStorage WHERE _3 IS NULL", b""),
            ("SELECT _2 FROM BlobStorage WHERE NULLIF(_3, '') IS NULL", b"1\n"),
            ("SELECT COUNT(_3) FROM BlobStorage", b"2\n"),
        ):
            with self.subTest(sql):
                self.assertEqual(self.answer(data, sql), (expected, []))

    def test_lines_of_windows_and_rows_without_their_column(self):
        lines = b"a,b\r\n1,2\r\n3\r\n4,5\r\n"
        self.assertEqual(self.answer(lines, "SELECT * FROM BlobStorage"), (lines.replace(b"\r", b""), []))
        errors = []
        reader = self.blob(lines).query_blob("SELECT b FROM BlobStorage", on_error=errors.append, blob_format=HEADER, output_format=PLAIN)
        # The client takes what comes together apart: an error between two rows must not come between them.
        self.assertEqual(list(reader.records()), [b"2", b"5", b""])
        self.assertEqual([(e.error, e.is_fatal) for e in errors], [("InvalidColumnOrdinal", False)])

    def test_statements_are_refused_with_their_place(self):
        blob = self.blob(PEOPLE)
        for sql, message in (
            ("SELECT", "At byte 6: expected an expression"),
            ("SELECT _1 FROM BlobStorage WHERE _1 =", "At byte 37: expected an expression"),
            ("SELECT name FROM BlobStorage", "At byte 7: columns have no names"),
            ("DELETE FROM BlobStorage", "At byte 0: expected SELECT"),
            ("SELECT " + "(" * 200, "nests deeper"),
        ):
            with self.subTest(sql), self.fails(400, "InvalidInput", message):
                blob.query_blob(sql)
        for status, code, separator, message in (
            (501, "NotImplemented", ":" * 65, "separator"),
            (400, "InvalidInput", "\n\n", "separators"),
        ):
            with self.subTest(separator), self.fails(status, code, message):
                blob.query_blob("SELECT * FROM BlobStorage", blob_format=DelimitedTextDialect(delimiter=separator))

    def test_parquet_and_arrow(self):
        data = (pathlib.Path(__file__).parents[2] / "query/tests/data/people-snappy.parquet").read_bytes()
        ask = lambda sql, output: self.answer(data, sql, blob_format=QuickQueryDialect.Parquet, output_format=output)
        lines = DelimitedJsonDialect(delimiter="\n")
        for sql, expected in (
            ("SELECT id, name FROM BlobStorage WHERE age > 10", b'{"id":1,"name":"Ann"}\n'),
            ("SELECT place.city FROM BlobStorage WHERE id = 3", b'{"city":"Rome"}\n'),
            ("SELECT COUNT(*) n FROM BlobStorage", b'{"n":3}\n'),
        ):
            with self.subTest(sql):
                self.assertEqual(ask(sql, lines), (expected, []))
        self.assertEqual(ask("SELECT id, price FROM BlobStorage LIMIT 2", PLAIN), (b"1,12.30\n2,-0.05\n", []))
        self.assertEqual(self.answer(data, "SELECT id FROM BlobStorage", blob_format="ParquetDialect"), (b"1\n2\n3\n", []))
        self.assertEqual(ask("SELECT none FROM BlobStorage", PLAIN), (b"", [("ParquetError", True, 0)]))
        # Larger than what is read at a time, and not at the beginning of the blob's storage.
        blob = self.container.get_blob_client(unique("blob"))
        blob.stage_block("YQ==", data[:1000])
        blob.stage_block("Yg==", data[1000:])
        blob.commit_block_list(["YQ==", "Yg=="])
        reader = blob.query_blob("SELECT name FROM BlobStorage", blob_format=QuickQueryDialect.Parquet, output_format=PLAIN)
        self.assertEqual(reader.readall(), b'Ann\nBob\n""\n')
        fields = [ArrowDialect(ArrowType.DECIMAL, name="abc", precision=4, scale=2), ArrowDialect(ArrowType.STRING, name="b")]
        answer, errors = self.answer(b"1.25,x\n99.5,y\n", "SELECT _1, _2 FROM BlobStorage", output_format=fields)
        self.assertEqual(errors, [])
        # An IPC stream: a schema, a batch and the end.
        self.assertEqual((answer[:4], answer[-8:]), (b"\xff" * 4, b"\xff" * 4 + bytes(4)))
        self.assertIn((125).to_bytes(16, "little") + (9950).to_bytes(16, "little"), answer)
        with self.fails(400, "InvalidInput", "1 columns are selected, but the Arrow schema has 2"):
            self.blob(b"1\n").query_blob("SELECT _1 FROM BlobStorage", output_format=fields)

    def test_conditions_leases_and_snapshots(self):
        blob = self.blob(PEOPLE)
        sql = "SELECT COUNT(*) FROM BlobStorage"
        snapshot = self.container.get_blob_client(blob.blob_name, snapshot=blob.create_snapshot()["snapshot"])
        before = blob.get_blob_properties().etag
        blob.upload_blob(b"one\n", overwrite=True)
        self.assertEqual((snapshot.query_blob(sql).readall(), blob.query_blob(sql).readall()), (b"4\n", b"1\n"))
        with self.fails(412, "ConditionNotMet"):
            blob.query_blob(sql, etag=before, match_condition=MatchConditions.IfNotModified)
        with self.fails(404, "BlobNotFound"):
            self.container.get_blob_client("none").query_blob(sql)
        lease = blob.acquire_lease()
        self.assertEqual(blob.query_blob(sql, lease=lease).readall(), b"1\n")
        lease.release()

    def test_long_contents_come_and_go_in_pieces(self):
        rows = 200_000
        data = b"".join(b"%d,%s\n" % (n, b"x" * (n % 90)) for n in range(rows))
        reader = self.blob(data).query_blob("SELECT _2, _1 FROM BlobStorage WHERE CAST(_1 AS INT) % 2 = 0")
        count, last = 0, None
        buffer = io.BytesIO()
        reader.readinto(buffer)
        for last in buffer.getvalue().splitlines():
            count += 1
        self.assertEqual((count, last), (rows // 2, b"x" * ((rows - 2) % 90) + b",%d" % (rows - 2)))
        limited = self.blob(data).query_blob("SELECT _1 FROM BlobStorage LIMIT 3")
        self.assertEqual([r for r in limited.records() if r], [b"0", b"1", b"2"])
        split = self.answer(data, "SELECT sys.split(10485760) FROM BlobStorage")[0]
        self.assertEqual(sum(map(int, split.split())), len(data))


if __name__ == "__main__":
    harness.main()
