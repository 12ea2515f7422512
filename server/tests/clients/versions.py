"""Versions of blobs and deleted containers, which a server keeps that was started with flags for them."""

from azure.storage.blob import BlobServiceClient

import harness
from harness import CONNECTION, ONCE, unique

service = BlobServiceClient.from_connection_string(CONNECTION, **ONCE)


class Versions(harness.Test):
    def setUp(self):
        self.container = service.create_container(unique("versions"))

    def test_what_is_overwritten_stays_as_a_version(self):
        blob = self.container.get_blob_client("b")
        first = blob.upload_blob(b"1")["version_id"]
        second = blob.upload_blob(b"2", overwrite=True)["version_id"]
        third = blob.set_blob_metadata({"a": "1"})["version_id"]
        self.assertEqual(sorted({first, second, third}), [first, second, third])
        for version, content in ((first, b"1"), (second, b"2"), (third, b"2")):
            self.assertEqual(blob.download_blob(version_id=version).readall(), content)
        current = blob.get_blob_properties()
        self.assertEqual((current.version_id, current.is_current_version), (third, True))
        self.assertTrue(blob.get_blob_properties(version_id=third).is_current_version)
        self.assertIsNone(blob.get_blob_properties(version_id=first).is_current_version)
        listed = [(b.version_id, b.is_current_version) for b in self.container.list_blobs(include=["versions"])]
        self.assertEqual(listed, [(first, None), (second, None), (third, True)])

    def test_a_deleted_blob_is_its_versions(self):
        blob = self.container.get_blob_client("b")
        version = blob.upload_blob(b"1")["version_id"]
        blob.delete_blob()
        self.assertFalse(blob.exists())
        self.assertEqual(list(self.container.list_blobs()), [])
        self.assertEqual([b.version_id for b in self.container.list_blobs(include=["versions"])], [version])
        blob.start_copy_from_url(f"{blob.url}?versionid={version}")
        self.assertEqual(blob.download_blob().readall(), b"1")
        with self.fails(403, "OperationNotAllowedOnRootBlob"):
            blob.delete_blob(version_id=blob.get_blob_properties().version_id)
        blob.delete_blob(version_id=version)
        with self.fails(404, "BlobNotFound"):
            blob.download_blob(version_id=version)


class Containers(harness.Test):
    def test_a_deleted_container_can_be_restored(self):
        container = service.create_container(unique("restored"), metadata={"a": "1"})
        container.upload_blob("b", b"1")
        container.delete_container()
        name = container.container_name
        self.assertEqual(list(service.list_containers(name_starts_with=name)), [])
        listed = next(service.list_containers(name_starts_with=name, include_deleted=True))
        self.assertTrue(listed.deleted and listed.version)
        restored = service.undelete_container(name, listed.version)
        self.assertEqual(restored.download_blob("b").readall(), b"1")
        self.assertEqual(restored.get_container_properties().metadata, {"a": "1"})
        with self.fails(404, "ContainerNotFound"):
            service.undelete_container(name, listed.version)


if __name__ == "__main__":
    harness.main()
