"""What Hadoop's ABFS driver needs of a server: raw requests as it sends them, each with the test of the driver that expects
the answer. Names of tests without a package are those of org.apache.hadoop.fs.azurebfs in hadoop-tools/hadoop-azure."""

import base64
import email.utils
import hashlib
import hmac
import http.client
import json
import unittest
from urllib.parse import parse_qsl, quote, urlsplit

from harness import ACCOUNT, KEY, SETTINGS, Test, unique

ADDRESS = urlsplit(SETTINGS["BlobEndpoint"]).netloc
# Where the driver sends requests: to the host in the URL of a file system, or to the address in `fs.azure.abfs.endpoint`, with
# the account in the path. Each is a host and the beginning of the paths.
AT_HOST = (f"{ACCOUNT}.dfs.localhost:{ADDRESS.rpartition(':')[2]}", "")
AT_ENDPOINT = (ADDRESS, f"/{ACCOUNT}")
SIGNED = ["Content-Encoding", "Content-Language", "Content-Length", "Content-MD5", "Content-Type", "Date", "If-Modified-Since",
          "If-Match", "If-None-Match", "If-Unmodified-Since", "Range"]


class Answer:
    def __init__(self, response):
        self.status = response.status
        self.headers = response.headers
        self.body = response.read()
        # The driver takes the code from the header of an answer to HEAD, and from the body of the others.
        self.code = response.headers.get("x-ms-error-code")
        if self.status >= 400 and self.body:
            self.code = json.loads(self.body)["error"]["code"]

    def __repr__(self):
        return f"{self.status} {self.code} {dict(self.headers)} {self.body[:300]}"


def sign(method, path, query, headers):
    """The Shared Key signature of SharedKeyCredentials, which is that of the Blob protocol."""
    ours = sorted((name, value) for name, value in headers.items() if name.startswith("x-ms-"))
    length = headers.get("Content-Length", "")
    standard = [("" if length == "0" else length) if name == "Content-Length" else headers.get(name, "") for name in SIGNED]
    parameters = [f"{name.lower()}:{value}" for name, value in sorted(parse_qsl(query, keep_blank_values=True))]
    resource = "\n".join([f"/{ACCOUNT}{path}", *parameters])
    text = "\n".join([method, *standard, *(f"{name}:{value}" for name, value in ours), resource])
    digest = hmac.digest(base64.b64decode(KEY), text.encode(), hashlib.sha256)
    return f"SharedKey {ACCOUNT}:{base64.b64encode(digest).decode()}"


def send(place, method, target, headers, body=b""):
    host, start = place
    target = start + target
    path, _, query = target.partition("?")
    headers = {
        "Host": host,
        "Accept": "application/json, application/octet-stream",
        "User-Agent": "APN/1.0 Azure Blob FS/3.5.0 (JavaJRE 17)",
        "x-ms-version": "2023-11-03",
        "x-ms-date": email.utils.formatdate(usegmt=True),
        **headers,
    }
    if method in ("PUT", "POST", "PATCH"):
        headers["Content-Length"] = str(len(body))
    headers["Authorization"] = sign(method, path, query, headers)
    connection = http.client.HTTPConnection(ADDRESS, timeout=60)
    try:
        connection.request(method, target, body or None, headers)
        return Answer(connection.getresponse())
    finally:
        connection.close()


# The requests of AbfsDfsClient. A path starts with a slash, and is one of the file system of the row. `{name}` in a value stands
# for what an earlier answer of the row had.
UPDATE = {"X-HTTP-Method-Override": "PATCH"}


def properties(**values):
    """`x-ms-properties`: the driver encodes values as ISO 8859-1."""
    return ",".join(f"{name}={base64.b64encode(value.encode('latin-1')).decode()}" for name, value in values.items())


def file_system(method, **headers):
    return method, "?resource=filesystem", headers, b""


def create(path, overwrite=True, resource="file", **headers):
    return "PUT", f"{path}?resource={resource}", headers if overwrite else {"If-None-Match": "*", **headers}, b""


def mkdir(path, overwrite=True, **headers):
    return create(path, overwrite, "directory", **headers)


def append(path, position, body, mode="", **headers):
    return "PUT", f"{path}?action=append&position={position}{mode}", UPDATE | headers, body


def flush(path, position, close="false", retain="false", **headers):
    return "PUT", f"{path}?action=flush&position={position}&retainUncommittedData={retain}&close={close}", UPDATE | headers, b""


def read(path, first=0, last=4 * 2**20 - 1, etag="{etag}", **headers):
    return "GET", path, {"Range": f"bytes={first}-{last}", "If-Match": etag} | headers, b""


def status(path):
    return "HEAD", f"{path}?action=getStatus&upn=false", {}, b""


def all_properties(path):
    return "HEAD", f"{path}?upn=false", {}, b""


def access(path):
    return "HEAD", f"{path}?action=getAccessControl&upn=false", {}, b""


def set_access(path, **headers):
    return "PUT", f"{path}?action=setAccessControl", UPDATE | {f"x-ms-{name}": value for name, value in headers.items()}, b""


def check_access(path, action):
    return "HEAD", f"{path}?action=checkAccess&fsAction={action}", {}, b""


def set_properties(path, value):
    return "PUT", f"{path}?action=setProperties", UPDATE | {"x-ms-properties": value}, b""


def rename(source, path):
    return "PUT", path, {"x-ms-rename-source": "/{fs}" + source, "If-None-Match": "*"}, b""


def delete(path, recursive="false", more=""):
    return "DELETE", f"{path}?recursive={recursive}{more}", {}, b""


def list_paths(directory, recursive="false", most=5000, more=""):
    query = f"?resource=filesystem&directory={directory}&recursive={recursive}&maxResults={most}&upn=false{more}"
    return "GET", query, {}, b""


def lease(path, action, **headers):
    return "POST", path, {"x-ms-lease-action": action} | {f"x-ms-{name.replace('_', '-')}": value for name, value in headers.items()}, b""


def keep(name, header):
    """Keeps a header for later requests and checks of the row."""
    def check(answer, kept):
        kept[name] = answer.headers[header]
    return check


def has(**headers):
    def check(answer, kept):
        for name, value in headers.items():
            found = answer.headers.get(name.replace("_", "-"))
            assert found == value.format(**kept), f"{name}: {found}, expected {value.format(**kept)}"
    return check


def body(expected):
    def check(answer, _):
        assert answer.body == expected, answer.body
    return check


def message(expected):
    """The driver compares the first line of some messages."""
    def check(answer, _):
        lines = json.loads(answer.body)["error"]["message"].split("\n")
        assert lines[0] == expected, lines
        assert lines[1].startswith("RequestId:") and lines[2].startswith("Time:"), lines
    return check


def names(*expected):
    def check(answer, _):
        found = [path["name"] for path in json.loads(answer.body)["paths"]]
        assert found == list(expected), found
    return check


def entry(**expected):
    """The first path of a list has these members. The driver reads numbers and booleans from texts too."""
    def check(answer, kept):
        first = json.loads(answer.body)["paths"][0]
        for name, value in expected.items():
            found = str(first.get(name)).lower() if name == "isDirectory" else first.get(name)
            assert str(found) == value.format(**kept), f"{name}: {found}"
    return check


FOO = "11111111-0000-0000-0000-000000000000"
# A row: the source, the behaviour, then steps. A step: a request, the status, then error code and checks.
ROWS = [
    ("ITestGetNameSpaceEnabled", "access control of the root tells that the namespace is hierarchical",
     (access("/"), 200, has(x_ms_permissions="rwxr-x---"))),
    ("ITestGetNameSpaceEnabled", "older drivers write the root with two slashes",
     (access("//"), 200, has(x_ms_owner="$superuser", x_ms_group="$superuser")),
     (status("//"), 200, has(x_ms_resource_type="directory"))),
    ("ITestGetNameSpaceEnabled.testFailedRequestWhenFSNotExist", "a missing file system is not a flat account",
     (file_system("DELETE"), 202), (access("/"), 404, "FilesystemNotFound"),
     (list_paths(""), 404, "FilesystemNotFound", message("The specified filesystem does not exist."))),
    ("ITestAzureBlobFileSystemInitAndCreate", "a file system is created once",
     (file_system("PUT"), 409, "FilesystemAlreadyExists")),
    ("ITestFileSystemProperties.testBase64FileSystemProperties", "properties of a file system are returned",
     (file_system("PUT", **UPDATE, **{"x-ms-properties": properties(key="{ value: value }")}), 200),
     (file_system("HEAD"), 200, has(x_ms_properties=properties(key="{ value: value }"), x_ms_namespace_enabled="true"))),
    ("ITestFileSystemProperties.testBase64PathProperties", "properties of a path are returned",
     (create("/f"), 201), (set_properties("/f", properties(key="{ value: valueTest }")), 200),
     (all_properties("/f"), 200, has(x_ms_properties=properties(key="{ value: valueTest }")))),
    ("ITestAzureBlobFileSystemAttributes.testSetXAttr", "attributes are properties, set all at once",
     (create("/f"), 201), (set_properties("/f", properties(attribute1="hi", attribute2="?? {}")), 200),
     (all_properties("/f"), 200, has(x_ms_properties=properties(attribute1="hi", attribute2="?? {}")))),
    ("ITestAzureBlobFileSystemAttributes.testSetXAttr", "a directory has attributes, too, and they do not hide what it is",
     (mkdir("/d"), 201), (set_properties("/d", properties(attribute1="hi")), 200),
     (all_properties("/d"), 200, has(x_ms_properties=properties(attribute1="hi"), x_ms_resource_type="directory"))),
    ("ITestAbfsClient, TracingContext", "a request id with colons is echoed",
     (("HEAD", "/?action=getStatus", {"x-ms-client-request-id": "corr:5f0a:fs1::LS:0"}, b""), 200,
      has(x_ms_client_request_id="corr:5f0a:fs1::LS:0"))),
    ("ITestAbfsRestOperationException.testAbfsRestOperationExceptionFormat", "a missing path has a message in three lines",
     (status("/missing"), 404, "PathNotFound"),
     (list_paths("missing"), 404, "PathNotFound", message("The specified path does not exist."))),

    ("ITestAzureBlobFileSystemCreate.testEnsureFileCreatedImmediately", "a created file is there, and empty",
     (create("/a/b/f", overwrite=False), 201, keep("etag", "ETag")),
     (status("/a/b/f"), 200, has(x_ms_resource_type="file", Content_Length="0", ETag="{etag}", x_ms_owner="$superuser")),
     (status("/a/b"), 200, has(x_ms_resource_type="directory"))),
    ("ITestAzureBlobFileSystemCreate.testDefaultCreateOverwriteFileTest", "overwriting is conditional on the ETag",
     (create("/f", overwrite=False), 201), (create("/f", overwrite=False), 409, "PathAlreadyExists"),
     (status("/f"), 200, keep("etag", "ETag")), (create("/f", **{"If-Match": "{etag}"}), 201),
     (create("/f", **{"If-Match": "{etag}"}), 412, "ConditionNotMet")),
    ("ITestAzureBlobFileSystemCreate.testCreateNonRecursive", "the parent is looked up, and a missing one is reported",
     (status("/no"), 404, "PathNotFound")),
    ("ITestAzureBlobFileSystemCreate.testCreateFileOverExplicitDirectory", "a file does not replace a directory",
     (mkdir("/d"), 201), (create("/d"), 409), (create("/d", overwrite=False), 409, "PathAlreadyExists"),
     (status("/d"), 200, has(x_ms_resource_type="directory"))),
    ("ITestAzureBlobFileSystemMkDir.testCreateDirWithExistingDir", "a directory may be created again, and keeps its files",
     (create("/d/f"), 201), (mkdir("/d"), 201), (status("/d/f"), 200)),
    ("AbfsDfsClient.createPath", "a refused directory says what is there already",
     (mkdir("/d"), 201), (mkdir("/d", overwrite=False), 409, "PathAlreadyExists", has(x_ms_existing_resource_type="directory")),
     (create("/f"), 201), (mkdir("/f", overwrite=False), 409, "PathAlreadyExists", has(x_ms_existing_resource_type="file"))),
    ("ITestAzureBlobFileSystemMkDir.testMkdirExistingDirOverwriteFalse", "a directory does not replace a file",
     (create("/f"), 201), (mkdir("/f"), 409), (status("/f"), 200, has(x_ms_resource_type="file"))),
    ("fs.contract.AbstractContractMkdirTest.testMkdirOverParentFile", "nothing is created below a file",
     (create("/f"), 201), (mkdir("/f/d"), 409, "PathConflict"), (create("/f/g"), 409, "PathConflict")),
    ("ITestAzureBlobFileSystemPermission.testFilePermission", "the umask is taken from the permissions",
     (create("/f", **{"x-ms-permissions": "0666", "x-ms-umask": "0022"}), 201), (access("/f"), 200, has(x_ms_permissions="rw-r--r--")),
     (mkdir("/d", **{"x-ms-permissions": "0770", "x-ms-umask": "0020"}), 201), (status("/d"), 200, has(x_ms_permissions="rwxr-x---"))),
    ("AzureBlobFileSystemStore.createFile", "without permissions, files have the service's",
     (create("/d/f"), 201), (status("/d/f"), 200, has(x_ms_permissions="rw-r-----")), (status("/d"), 200, has(x_ms_permissions="rwxr-x---"))),
    ("ITestAzureBlobFileSystemFileStatus", "spaces, signs and other letters are part of a name",
     (create("/" + quote("a b+c%;=é漢"), overwrite=False), 201), (list_paths(""), 200, names("a b+c%;=é漢")),
     (rename("/" + quote("a b+c%;=é漢"), "/" + quote("ä ö")), 201), (list_paths(""), 200, names("ä ö"))),

    ("ITestAzureBlobFileSystemAppend.testCloseOfDataBlockOnAppendComplete", "data is appended, flushed, and read back",
     (create("/f"), 201), (append("/f", 0, b"hello "), 202), (append("/f", 6, b"world"), 202), (status("/f"), 200, has(Content_Length="0")),
     (flush("/f", 11, close="true"), 200, keep("etag", "ETag")), (status("/f"), 200, has(Content_Length="11", ETag="{etag}")),
     (read("/f"), 206, body(b"hello world"), has(Content_Range="bytes 0-10/11"))),
    ("ITestAzureBlobFileSystemFlush.testAbfsOutputStreamAsyncFlushWithRetainUncommittedData", "a flush may keep what comes after it",
     (create("/f"), 201), (append("/f", 0, b"ab"), 202), (append("/f", 2, b"cd"), 202), (flush("/f", 2, retain="true"), 200),
     (flush("/f", 4), 200, keep("etag", "ETag")), (read("/f"), 206, body(b"abcd"))),
    ("ITestAzureBlobFileSystemFlush.testAbfsOutputStreamSyncFlush", "a flush with nothing new succeeds",
     (create("/f"), 201), (flush("/f", 0), 200), (append("/f", 0, b"a"), 202), (flush("/f", 1), 200), (flush("/f", 1), 200),
     (flush("/f", 1, close="true"), 200)),
    ("AbfsOutputStream.writeCurrentBufferToService", "appends may arrive in any order",
     (create("/f"), 201), (append("/f", 3, b"def"), 202), (append("/f", 0, b"abc"), 202), (flush("/f", 6), 200, keep("etag", "ETag")),
     (read("/f"), 206, body(b"abcdef"))),
    ("AbfsOutputStream, retry of a lost answer", "an append that is sent again replaces itself",
     (create("/f"), 201), (append("/f", 0, b"abc"), 202), (append("/f", 0, b"abc"), 202), (flush("/f", 3), 200, keep("etag", "ETag")),
     (read("/f"), 206, body(b"abc"))),
    ("AzureServiceErrorCode, ITestAzureBlobFileSystemFlush", "a flush beyond the data is refused, and loses nothing",
     (create("/f"), 201), (append("/f", 0, b"abc"), 202), (flush("/f", 4), 400, "InvalidFlushPosition"), (flush("/f", 3), 200)),
    ("ITestSmallWriteOptimization", "a small write is appended and flushed at once, and closed",
     (create("/f"), 201), (append("/f", 0, b"abc", "&flush=true"), 202, keep("etag", "ETag")), (status("/f"), 200, has(Content_Length="3")),
     (append("/f", 3, b"def", "&flush=true&close=true"), 202, keep("etag", "ETag")), (read("/f"), 206, body(b"abcdef"))),
    ("AbfsClient.append, 100-continue", "an append may wait for 100 Continue",
     (create("/f"), 201), (append("/f", 0, b"abc", **{"Expect": "100-continue"}), 202), (flush("/f", 3), 200)),
    ("ITestAzureBlobFileSystemChecksum.testAppendWithChecksumAtDifferentOffsets", "the checksum of an append is verified",
     (create("/f"), 201), (append("/f", 0, b"abc", **{"Content-MD5": base64.b64encode(hashlib.md5(b"abc").digest()).decode()}), 202),
     (append("/f", 3, b"x", **{"Content-MD5": base64.b64encode(hashlib.md5(b"y").digest()).decode()}), 400, "Md5Mismatch",
      message("The MD5 value specified in the request did not match with the MD5 value calculated by the server.")),
     (flush("/f", 3), 200, keep("etag", "ETag")),
     (read("/f", **{"x-ms-range-get-content-md5": "true"}), 206, has(Content_MD5=base64.b64encode(hashlib.md5(b"abc").digest()).decode()))),
    ("ITestAzureBlobFileSystemCreate.testTryWithResources", "nothing is appended to a deleted file",
     (create("/f"), 201), (append("/f", 0, b"1", "&flush=true"), 202), (delete("/f"), 200), (append("/f", 1, b"2"), 404, "PathNotFound"),
     (flush("/f", 2), 404, "PathNotFound")),
    ("ITestAzureBlobFileSystemAppend.testAppendDirShouldFail", "nothing is appended to a directory",
     (mkdir("/d"), 201), (append("/d", 0, b"1"), 409)),
    ("ITestAbfsInputStream, AbfsInputStream.readRemote", "a read sees one version, and may end beyond the file",
     (create("/f"), 201), (append("/f", 0, b"abcdef", "&flush=true"), 202, keep("etag", "ETag")),
     (read("/f", 2, 100), 206, body(b"cdef")), (read("/f", 6, 9), 416, "InvalidRange"),
     (create("/f"), 201), (read("/f", 0, 1), 412, "ConditionNotMet")),
    ("ITestAzureBlobFileSystemDelete.testOpenFileAfterDelete", "a deleted file is not read",
     (create("/f"), 201, keep("etag", "ETag")), (delete("/f"), 200), (read("/f"), 404, "PathNotFound")),

    ("ITestAzureBlobFileSystemListStatus.testListFiles", "a list has the members that a file status needs",
     (create("/d/f"), 201), (append("/d/f", 0, b"abc", "&flush=true"), 202), (status("/d/f"), 200, keep("etag", "ETag"), keep("time", "Last-Modified")),
     (list_paths("d"), 200, entry(name="d/f", contentLength="3", owner="$superuser", group="$superuser", permissions="rw-r-----", lastModified="{time}")),
     (list_paths("/"), 200, entry(name="d", isDirectory="true", permissions="rwxr-x---"))),
    ("ITestAzureBlobFileSystemListStatus.testListPath", "a list goes on with the continuation",
     (create("/a"), 201), (create("/b"), 201), (create("/c/d"), 201),
     (list_paths("", most=2), 200, names("a", "b"), keep("next", "x-ms-continuation")),
     (list_paths("", most=2, more="&continuation={next}"), 200, names("c"), has()),
     (list_paths("", "true"), 200, names("a", "b", "c", "c/d"))),
    ("ITestAzureBlobFileSystemListStatus.testListStatus", "an empty directory lists nothing, and a slash at its end changes nothing",
     (mkdir("/d"), 201), (list_paths("d"), 200, names()), (list_paths("/d/"), 200, names())),

    ("ITestAzureBlobFileSystemRename.testEnsureFileIsRenamed", "a file moves",
     (create("/a"), 201), (rename("/a", "/b"), 201), (status("/a"), 404, "PathNotFound"), (status("/b"), 200)),
    ("ITestAzureBlobFileSystemRename.testRenameWithPreExistingDestination", "the driver's rename replaces nothing",
     (create("/a"), 201), (create("/b"), 201), (rename("/a", "/b"), 409, "PathAlreadyExists"), (status("/a"), 200),
     (mkdir("/d"), 201), (rename("/a", "/d"), 409), (rename("/d", "/a"), 409), (status("/a"), 200), (status("/d"), 200)),
    ("ITestAzureBlobFileSystemRename.testRenameFileUnderDir", "a directory moves with its files",
     (create("/s/f"), 201), (mkdir("/s/a/b"), 201), (rename("/s", "/t"), 201), (list_paths("t", "true"), 200, names("t/a", "t/a/b", "t/f")),
     (status("/s"), 404, "PathNotFound")),
    ("ITestAzureBlobFileSystemRename.testPosixRenameDirectory", "a directory moves to another parent",
     (mkdir("/1/2/3"), 201), (mkdir("/4"), 201), (rename("/1/2/3", "/4/3"), 201), (status("/1/2"), 200), (status("/4/3"), 200)),
    ("ITestAzureBlobFileSystemRename.testPosixRenameDirectoryWhereDirectoryAlreadyThereOnDestination", "an existing directory is not merged",
     (create("/1/3/f"), 201), (mkdir("/4/3"), 201), (rename("/1/3", "/4/3"), 409, "PathAlreadyExists"), (status("/1/3/f"), 200)),
    ("ITestAzureBlobFileSystemRename.testRenameWithNoDestinationParentDir", "a missing parent of the destination is not made",
     (create("/a"), 201), (rename("/a", "/no/b"), 404, "RenameDestinationParentPathNotFound"), (status("/a"), 200), (status("/no"), 404)),
    ("ITestAzureBlobFileSystemRename.testRenameNotFoundBlobToEmptyRoot", "a missing source is reported",
     (rename("/a", "/b"), 404, "SourcePathNotFound", message("The source path for a rename operation does not exist."))),
    ("AzureServiceErrorCode.INVALID_RENAME_SOURCE_PATH", "a directory does not move below itself",
     (mkdir("/d"), 201), (rename("/d", "/d/e"), 409, "InvalidRenameSourcePath")),
    ("ITestAzureBlobFileSystemRenameRecovery, AbfsClient.renameIdempotencyCheckOp", "a lost answer is recognised by the ETag, which moves with the file",
     (create("/a"), 201), (append("/a", 0, b"x", "&flush=true"), 202), (status("/a"), 200, keep("etag", "ETag"), keep("time", "Last-Modified")),
     (rename("/a", "/b"), 201), (rename("/a", "/b"), 404, "SourcePathNotFound"), (status("/b"), 200, has(ETag="{etag}", Last_Modified="{time}"))),
    ("ITestAzureBlobFileSystemRename.testRenameFileUnderDir, open stream", "an open stream goes on under the new name",
     (create("/a"), 201), (append("/a", 0, b"x"), 202), (rename("/a", "/b"), 201), (flush("/a", 1), 404, "PathNotFound"),
     (flush("/b", 1), 200, keep("etag", "ETag")), (read("/b"), 206, body(b"x"))),

    ("ITestAzureBlobFileSystemDelete.testDeleteDirectory", "a directory is deleted with what is below",
     (create("/d/1/2/f"), 201), (delete("/d", "true"), 200), (status("/d"), 404), (status("/d/1/2/f"), 404)),
    ("ITestAzureBlobFileSystemDelete.testDeleteFirstLevelDirectory", "a directory with files needs a recursive deletion",
     (create("/d/f"), 201),
     (delete("/d"), 409, "DirectoryNotEmpty", message("The recursive query parameter value must be true to delete a non-empty directory.")),
     (status("/d/f"), 200), (delete("/d/f"), 200), (delete("/d"), 200)),
    ("ITestAzureBlobFileSystemDelete.testDeleteIdempotencyTriggerHttp404", "a missing path cannot be deleted",
     (delete("/missing"), 404, "PathNotFound"), (delete("/missing", "true"), 404, "PathNotFound")),
    ("ITestAbfsPaginatedDelete.testRecursiveDeleteWithPagination", "a paginated deletion may end with the first page",
     (create("/d/f"), 201), (delete("/d", "true", "&paginated=true"), 200), (status("/d"), 404)),

    ("ITestAzureBlobFilesystemAcl.testModifyAclEntries", "access control lists are returned in full, and the mask is the group of the permissions",
     (mkdir("/d"), 201), (access("/d"), 200, keep("etag", "ETag")),
     (set_access("/d", acl=f"user::rwx,user:{FOO}:rwx,group::r-x,mask::rwx,other::---,default:user::rwx,default:user:{FOO}:rwx,default:group::r-x,default:mask::rwx,default:other::---"), 200),
     (access("/d"), 200, has(x_ms_permissions="rwxrwx---+", x_ms_acl=f"user::rwx,user:{FOO}:rwx,group::r-x,mask::rwx,other::---,default:user::rwx,default:user:{FOO}:rwx,default:group::r-x,default:mask::rwx,default:other::---"))),
    ("ITestAzureBlobFilesystemAcl.testSetAcl, If-Match", "a list is set on the version that was read",
     (create("/f"), 201, keep("etag", "ETag")), (("PUT", "/f?action=setAccessControl", UPDATE | {"x-ms-acl": "user::rwx,group::r-x,other::---", "If-Match": "{etag}"}, b""), 200),
     (("PUT", "/f?action=setAccessControl", UPDATE | {"x-ms-acl": "user::rwx,group::r-x,other::---", "If-Match": '"0x1"'}, b""), 412, "ConditionNotMet")),
    ("ITestAzureBlobFilesystemAcl.testModifyAclEntriesDefaultOnFile", "a file has no default entries",
     (create("/f"), 201), (set_access("/f", acl="user::rwx,group::r-x,other::---,default:user::rwx,default:group::r-x,default:other::---"), 400)),
    ("ITestAzureBlobFilesystemAcl.testModifyAclEntriesPathNotFound", "a missing path has no list",
     (access("/missing"), 404, "PathNotFound"), (set_access("/missing", acl="user::rwx,group::r-x,other::---"), 404, "PathNotFound")),
    ("ITestAzureBlobFilesystemAcl.testModifyAclEntriesStickyBit", "the sticky bit is kept",
     (mkdir("/d", **{"x-ms-permissions": "1750", "x-ms-umask": "0000"}), 201), (access("/d"), 200, has(x_ms_permissions="rwxr-x--T"))),
    ("ITestAzureBlobFilesystemAcl.testSetOwner", "owner and group are set, one by one",
     (create("/f"), 201), (set_access("/f", owner=FOO), 200), (access("/f"), 200, has(x_ms_owner=FOO, x_ms_group="$superuser")),
     (set_access("/f", group=FOO), 200), (access("/f"), 200, has(x_ms_owner=FOO, x_ms_group=FOO))),
    ("ITestAzureBlobFileSystemPermission.testSetPermission", "permissions are set in octal",
     (create("/f"), 201), (set_access("/f", permissions="0644"), 200), (access("/f"), 200, has(x_ms_permissions="rw-r--r--"))),
    ("ITestAzureBlobFilesystemAcl.testDefaultAclNewFile", "new files inherit the default entries",
     (mkdir("/d"), 201), (set_access("/d", acl=f"user::rwx,group::r-x,other::---,default:user::rwx,default:user:{FOO}:rwx,default:group::r-x,default:mask::rwx,default:other::---"), 200),
     (create("/d/f", **{"x-ms-permissions": "0666", "x-ms-umask": "0022"}), 201),
     (access("/d/f"), 200, has(x_ms_acl=f"user::rw-,user:{FOO}:rwx,group::r-x,mask::rw-,other::---"))),
    ("ITestAzureBlobFileSystemCheckAccess.testCheckAccessForNonExistentFile", "the holder of the key may do everything that there is",
     (create("/f"), 201), (check_access("/f", "rwx"), 200), (check_access("/missing", "r--"), 404, "PathNotFound")),

    ("ITestAzureBlobFileSystemLease.testOneWriter", "a lease protects a file while it is written",
     (create("/f"), 201), (lease("/f", "acquire", lease_duration="-1", proposed_lease_id=FOO), 201, has(x_ms_lease_id=FOO)),
     (append("/f", 0, b"a"), 412, "LeaseIdMissing", message("There is currently a lease on the resource and no lease ID was specified in the request.")),
     (append("/f", 0, b"a", **{"x-ms-lease-id": FOO}), 202), (flush("/f", 1, **{"x-ms-lease-id": FOO}), 200),
     (lease("/f", "renew", lease_id=FOO), 200), (lease("/f", "release", lease_id=FOO), 200), (append("/f", 1, b"b"), 202)),
    ("ITestAzureBlobFileSystemLease.testTwoCreate", "a leased file is not created again",
     (create("/f"), 201, keep("etag", "ETag")), (lease("/f", "acquire", lease_duration="-1", proposed_lease_id=FOO), 201),
     (create("/f", **{"If-Match": "{etag}"}), 412),
     (lease("/f", "acquire", lease_duration="-1", proposed_lease_id="22222222-0000-0000-0000-000000000000"), 409, "LeaseAlreadyPresent")),
    ("ITestAzureBlobFileSystemLease.testWriteAfterBreakLease", "a broken lease does not write any more",
     (create("/f"), 201), (lease("/f", "acquire", lease_duration="-1", proposed_lease_id=FOO), 201), (lease("/f", "break", lease_break_period="0"), 202),
     (append("/f", 0, b"a", **{"x-ms-lease-id": FOO}), 412, message("A lease ID was specified, but the lease for the resource has expired.")),
     (append("/f", 0, b"a"), 202)),
    ("ITestAzureBlobFileSystemLease, rename", "a leased file does not move without its lease",
     (create("/f"), 201), (lease("/f", "acquire", lease_duration="-1", proposed_lease_id=FOO), 201), (rename("/f", "/g"), 412, "LeaseIdMissing")),

    ("ITestAbfsCustomEncryption, x-ms-encryption-context", "the context of a file's encryption is kept",
     (create("/f", **{"x-ms-encryption-context": "Y29udGV4dA=="}), 201), (all_properties("/f"), 200, has(x_ms_encryption_context="Y29udGV4dA=="))),
]


class Abfs(Test):
    def test_every_behaviour_of_the_driver_s_tests(self):
        self.check(AT_HOST)

    def test_every_behaviour_at_an_endpoint(self):
        self.check(AT_ENDPOINT)

    def check(self, place):
        for source, behaviour, *steps in ROWS:
            with self.subTest(f"{behaviour} ({source})"):
                kept = {"fs": unique("abfs"), "etag": "*"}
                root = "/" + kept["fs"]
                self.assertEqual(send(place, "PUT", root + "?resource=filesystem", {}).status, 201)
                for (method, target, headers, sent), expected, *checks in steps:
                    target = root + target.replace("{next}", quote(kept.get("next", "")))
                    headers = {name: value.format(**kept) for name, value in headers.items()}
                    answer = send(place, method, target, headers, sent)
                    step = f"{method} {target} {headers}: {answer}"
                    self.assertEqual(answer.status, expected, step)
                    for check in checks:
                        if isinstance(check, str):
                            self.assertEqual(answer.code, check, step)
                        else:
                            check(answer, kept)
                send(place, "DELETE", root + "?resource=filesystem", {})


if __name__ == "__main__":
    unittest.main()
