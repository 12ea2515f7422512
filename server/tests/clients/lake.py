"""The official client for Data Lake Storage: file systems, directories, files, rename, access control, leases, SAS."""

import datetime
import unittest

from azure.core import MatchConditions
from azure.core.exceptions import ResourceNotFoundError
from azure.storage.blob import BlobServiceClient
from azure.storage.filedatalake import (
    ContentSettings,
    DataLakeServiceClient,
    DirectorySasPermissions,
    FileSasPermissions,
    FileSystemSasPermissions,
    generate_directory_sas,
    generate_file_sas,
    generate_file_system_sas,
)

from harness import ACCOUNT, CONNECTION, KEY, KEY_CREDENTIAL, ONCE, SETTINGS, Test, unique

URL = SETTINGS["BlobEndpoint"]
SERVICE = DataLakeServiceClient(URL, credential=KEY_CREDENTIAL, **ONCE)
BLOBS = BlobServiceClient.from_connection_string(CONNECTION, **ONCE)


def expiry():
    return datetime.datetime.now(datetime.timezone.utc) + datetime.timedelta(hours=1)


def names(paths):
    return [(path.name, path.is_directory) for path in paths]


class Lake(Test):
    def setUp(self):
        self.name = unique("lake")
        self.files = SERVICE.create_file_system(self.name, metadata={"kept": "yes"})
        self.addCleanup(SERVICE.delete_file_system, self.name)


class FileSystems(Lake):
    def test_a_file_system_is_listed_with_its_properties(self):
        found = [found for found in SERVICE.list_file_systems(name_starts_with=self.name, include_metadata=True)]
        self.assertEqual([(one.name, one.metadata) for one in found], [(self.name, {"kept": "yes"})])
        self.assertEqual(self.files.get_file_system_properties().metadata, {"kept": "yes"})
        self.files.set_file_system_metadata({"other": "value"})
        self.assertEqual(self.files.get_file_system_properties().metadata, {"other": "value"})
        with self.fails(409, "ContainerAlreadyExists"):
            self.files.create_file_system()

    def test_the_account_has_a_hierarchical_namespace(self):
        self.assertTrue(BLOBS.get_account_information()["is_hns_enabled"])


class Paths(Lake):
    def test_a_file_is_written_in_parts_and_read_back(self):
        file = self.files.get_file_client("a/b/file.txt")
        created = file.create_file(content_settings=ContentSettings(content_type="text/plain"), metadata={"n": "v"})
        file.append_data(b"hello ", 0)
        file.append_data(b"world", 6)
        flushed = file.flush_data(11, etag=created["etag"], match_condition=MatchConditions.IfNotModified)
        self.assertNotEqual(flushed["etag"], created["etag"])
        self.assertEqual(file.download_file().readall(), b"hello world")
        found = file.get_file_properties()
        self.assertEqual((found.size, found.metadata, found.content_settings.content_type), (11, {"n": "v"}, "text/plain"))
        self.assertEqual((found.owner, found.group, found.permissions), ("$superuser", "$superuser", "rw-r-----"))
        with self.fails(400, "InvalidFlushPosition"):
            file.flush_data(12)
        file.append_data(b"!", 11, flush=True)
        self.assertEqual(file.download_file(offset=6, length=6).readall(), b"world!")
        self.assertTrue(self.files.get_directory_client("a/b").exists())
        self.assertFalse(self.files.get_file_client("a/c").exists())

    def test_an_upload_replaces_a_file_only_if_it_may(self):
        file = self.files.get_file_client("up")
        data = bytes(range(256)) * 40_000
        file.upload_data(data, overwrite=True, chunk_size=4 << 20)
        self.assertEqual(file.download_file().readall(), data)
        with self.fails(409, "PathAlreadyExists"):
            file.upload_data(b"other")
        file.upload_data(b"other", overwrite=True)
        self.assertEqual(file.download_file().readall(), b"other")

    def test_an_upload_sets_the_rights_of_a_file_that_exists(self):
        file = self.files.create_file("f")
        file.upload_data(b"other", overwrite=True, permissions="0777", umask="0000")
        self.assertEqual(file.get_access_control()["permissions"], "rwxrwxrwx")
        file.upload_data(b"again", overwrite=True)
        self.assertEqual(file.get_access_control()["permissions"], "rwxrwxrwx")

    def test_listings_show_directories(self):
        self.files.get_file_client("d/e/f").create_file()
        self.files.get_file_client("d/a").create_file()
        self.files.create_directory("empty")
        everything = [("d", True), ("d/a", False), ("d/e", True), ("d/e/f", False), ("empty", True)]
        self.assertEqual(names(self.files.get_paths()), everything)
        self.assertEqual(names(self.files.get_paths(recursive=False)), [("d", True), ("empty", True)])
        self.assertEqual(names(self.files.get_paths(path="d", recursive=False)), [("d/a", False), ("d/e", True)])
        pages = [names(page) for page in self.files.get_paths(max_results=2).by_page()]
        self.assertEqual(sum(pages, []), everything)
        self.assertEqual([len(page) for page in pages], [2, 2, 1])
        first = next(iter(self.files.get_paths()))
        self.assertEqual((first.owner, first.permissions), ("$superuser", "rwxr-x---"))
        self.assertIsNotNone(first.etag)
        self.assertEqual(first.creation_time.date(), datetime.datetime.now(datetime.timezone.utc).date())
        with self.fails(404, "PathNotFound"):
            list(self.files.get_paths(path="missing"))

    def test_a_directory_is_deleted_with_what_it_has(self):
        directory = self.files.create_directory("d")
        directory.create_file("f")
        directory.create_sub_directory("s")
        directory.delete_directory()
        self.assertEqual(names(self.files.get_paths()), [])
        with self.fails(404, "PathNotFound"):
            directory.delete_directory()

    def test_properties_are_set(self):
        file = self.files.create_file("f")
        file.set_metadata({"a": "1"})
        file.set_http_headers(ContentSettings(content_type="a/b", cache_control="no-store"))
        found = file.get_file_properties()
        self.assertEqual((found.metadata, found.content_settings.content_type), ({"a": "1"}, "a/b"))
        file.set_file_expiry("RelativeToNow", expires_on=100_000)
        self.assertIsNotNone(file.get_file_properties().expiry_time)

    def test_a_missing_path_has_its_own_error(self):
        file = self.files.get_file_client("missing")
        with self.fails(404, "PathNotFound"):
            file.append_data(b"x", 0)
        with self.fails(404, "PathNotFound"):
            file.delete_file()
        with self.assertRaises(ResourceNotFoundError):
            file.get_file_properties()


class Rename(Lake):
    def test_a_directory_moves_with_all_below_it(self):
        directory = self.files.create_directory("old")
        directory.create_file("sub/f").upload_data(b"data", overwrite=True)
        moved = directory.rename_directory(f"{self.name}/new")
        self.assertEqual(moved.path_name, "new")
        self.assertEqual(names(self.files.get_paths()), [("new", True), ("new/sub", True), ("new/sub/f", False)])
        self.assertEqual(self.files.get_file_client("new/sub/f").download_file().readall(), b"data")

    def test_a_file_keeps_its_etag_and_replaces_another(self):
        file = self.files.create_file("a b/é")
        file.upload_data(b"1", overwrite=True)
        before = file.get_file_properties()
        self.files.create_file("other")
        moved = file.rename_file(f"{self.name}/other")
        after = moved.get_file_properties()
        self.assertEqual((after.etag, after.size), (before.etag, 1))
        self.assertFalse(file.exists())

    def test_renames_that_cannot_be_are_refused(self):
        directory = self.files.create_directory("d")
        directory.create_file("f")
        full = self.files.create_directory("full")
        full.create_file("x")
        with self.fails(409, "InvalidRenameSourcePath"):
            directory.rename_directory(f"{self.name}/d/e")
        with self.fails(409, "DirectoryNotEmpty"):
            directory.rename_directory(f"{self.name}/full")
        with self.fails(404, "RenameDestinationParentPathNotFound"):
            directory.rename_directory(f"{self.name}/no/where")
        with self.fails(404, "SourcePathNotFound"):
            self.files.get_file_client("missing").rename_file(f"{self.name}/x")
        with self.fails(404, "FilesystemNotFound"):
            directory.rename_directory("nowhere1/x")


class Access(Lake):
    def test_access_control_is_set_and_read(self):
        file = self.files.create_file("f", permissions="rwxrwxrwx", umask="0007")
        self.assertEqual(file.get_access_control()["permissions"], "rwxrwx---")
        acl = "user::rwx,user:11111111-0000-0000-0000-000000000000:r--,group::r-x,mask::r-x,other::---"
        file.set_access_control(acl=acl)
        found = file.get_access_control()
        self.assertEqual((found["acl"], found["permissions"]), (acl, "rwxr-x---+"))
        file.set_access_control(owner="22222222-0000-0000-0000-000000000000", permissions="0640")
        found = file.get_access_control()
        self.assertEqual((found["owner"], found["permissions"]), ("22222222-0000-0000-0000-000000000000", "rw-r-----+"))

    def test_access_control_is_set_recursively(self):
        directory = self.files.create_directory("d")
        for name in ["a", "b", "c/d"]:
            directory.create_file(name)
        acl = "user::rwx,group::r-x,other::r--"
        pages = []
        result = directory.set_access_control_recursive(acl, batch_size=2, progress_hook=pages.append)
        self.assertEqual((result.counters.directories_successful, result.counters.files_successful), (2, 3))
        self.assertEqual((result.counters.failure_count, len(pages)), (0, 3))
        self.assertEqual(directory.get_file_client("c/d").get_access_control()["acl"], acl)
        entry = "user:11111111-0000-0000-0000-000000000000:rwx"
        directory.update_access_control_recursive(entry)
        self.assertIn(entry, directory.get_file_client("a").get_access_control()["acl"])
        directory.remove_access_control_recursive("user:11111111-0000-0000-0000-000000000000")
        self.assertNotIn("11111111", directory.get_file_client("a").get_access_control()["acl"])

    def test_the_root_has_access_control(self):
        root = self.files._get_root_directory_client()
        self.assertEqual(root.get_access_control()["permissions"], "rwxr-x---")


class Leases(Lake):
    def test_a_leased_path_needs_its_lease(self):
        file = self.files.create_file("f")
        lease = file.acquire_lease(60)
        with self.fails(412, "LeaseIdMissing"):
            file.delete_file()
        file.append_data(b"x", 0, lease=lease)
        file.flush_data(1, lease=lease)
        lease.renew()
        lease.release()
        file.delete_file()

    def test_an_append_acquires_and_releases_a_lease(self):
        file = self.files.create_file("f")
        lease = "33333333-0000-0000-0000-000000000000"
        file.append_data(b"x", 0, flush=True, lease_action="acquire-release", lease_duration=15, lease=lease)
        self.assertEqual(file.get_file_properties().lease.state, "available")


class Signatures(Lake):
    def client(self, sas):
        return DataLakeServiceClient(URL, credential=sas, **ONCE).get_file_system_client(self.name)

    def test_a_directory_sas_covers_what_is_in_the_directory(self):
        self.files.create_file("d/f").upload_data(b"1", overwrite=True)
        self.files.create_file("e/f")
        sas = generate_directory_sas(ACCOUNT, self.name, "d", KEY, DirectorySasPermissions.from_string("rwdlmcae"), expiry())
        files = self.client(sas)
        self.assertEqual(files.get_file_client("d/f").download_file().readall(), b"1")
        self.assertEqual(names(files.get_paths(path="d")), [("d/f", False)])
        files.create_file("d/new")
        with self.fails(403, "AuthenticationFailed"):
            list(files.get_paths(path="e"))
        with self.fails(403, "AuthenticationFailed"):
            files.get_file_client("e/f").create_file()
        moved = files.get_file_client("d/new").rename_file(f"{self.name}/d/moved")
        self.assertTrue(moved.exists())
        with self.fails(403, "AuthenticationFailed"):
            files.get_file_client("e/f").rename_file(f"{self.name}/d/stolen")

    def test_a_file_system_sas_needs_the_letters(self):
        self.files.create_file("f")
        reading = self.client(generate_file_system_sas(ACCOUNT, self.name, KEY, FileSystemSasPermissions.from_string("rl"), expiry()))
        self.assertEqual(names(reading.get_paths()), [("f", False)])
        with self.fails(403, "AuthorizationPermissionMismatch"):
            reading.get_file_client("f").append_data(b"x", 0)
        with self.fails(403, "AuthorizationPermissionMismatch"):
            reading.get_file_client("f").set_access_control(permissions="0777")
        setting = self.client(generate_file_system_sas(ACCOUNT, self.name, KEY, "p", expiry()))
        setting.get_file_client("f").set_access_control(permissions="0777")

    def test_a_file_sas_covers_the_file(self):
        self.files.create_file("d/f")
        sas = generate_file_sas(ACCOUNT, self.name, "d", "f", KEY, FileSasPermissions.from_string("rw"), expiry())
        file = self.client(sas).get_file_client("d/f")
        file.append_data(b"xy", 0)
        file.flush_data(2)
        self.assertEqual(file.download_file().readall(), b"xy")


class BlobProtocol(Lake):
    def test_blobs_and_paths_are_the_same(self):
        container = BLOBS.get_container_client(self.name)
        container.upload_blob("a/b", b"data")
        self.assertEqual(self.files.get_file_client("a/b").download_file().readall(), b"data")
        self.files.create_file("a/c").upload_data(b"more", overwrite=True)
        self.assertEqual(container.download_blob("a/c").readall(), b"more")
        flat = [(blob.name, (blob.metadata or {}).get("hdi_isfolder")) for blob in container.list_blobs(include=["metadata"])]
        self.assertEqual(flat, [("a", "true"), ("a/b", None), ("a/c", None)])
        self.assertEqual([item.name for item in container.walk_blobs()], ["a/"])
        with self.fails(409, "DirectoryIsNotEmpty"):
            container.delete_blob("a")

    def test_a_marker_makes_a_directory(self):
        container = BLOBS.get_container_client(self.name)
        container.upload_blob("made", b"", metadata={"hdi_isfolder": "true"})
        self.assertEqual(names(self.files.get_paths()), [("made", True)])
        self.assertTrue(self.files.get_directory_client("made").exists())

    def test_files_have_tags(self):
        container = BLOBS.get_container_client(self.name)
        blob = container.upload_blob("f", b"")
        blob.set_blob_tags({"a": "1"})
        self.assertEqual(blob.get_blob_tags(), {"a": "1"})


if __name__ == "__main__":
    unittest.main()
