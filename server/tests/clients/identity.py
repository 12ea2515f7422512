"""`DefaultAzureCredential` as in production, with the environment that the server prints, and no way to Azure."""

import os
import urllib.request

from azure.data.tables import TableServiceClient
from azure.identity import DefaultAzureCredential, EnvironmentCredential, ManagedIdentityCredential, WorkloadIdentityCredential
from azure.storage.blob import BlobServiceClient
from azure.storage.queue import QueueServiceClient

import harness
from harness import ONCE, SETTINGS, unique

BLOBS = SETTINGS["BlobEndpoint"].replace("127.0.0.1", "localhost")
QUEUES = SETTINGS["QueueEndpoint"].replace("127.0.0.1", "localhost")
TABLES = SETTINGS["TableEndpoint"].replace("127.0.0.1", "localhost")
PORT = BLOBS.rsplit(":", 1)[1].split("/")[0]
TENANT = {"AZURE_AUTHORITY_HOST": f"https://localhost:{PORT}", "AZURE_TENANT_ID": "adfs", "AZURE_CLIENT_ID": "any"}


class Identity(harness.Test):
    def tearDown(self):
        for name in list(os.environ):
            if name.startswith(("AZURE_AUTHORITY", "AZURE_TENANT", "AZURE_CLIENT", "AZURE_FEDERATED", "AZURE_POD", "IDENTITY_")):
                del os.environ[name]

    def use(self, credential):
        container = BlobServiceClient(BLOBS, credential, **ONCE).create_container(unique("con"))
        container.upload_blob("b", b"1")
        self.assertEqual(container.download_blob("b").readall(), b"1")
        QueueServiceClient(QUEUES, credential, **ONCE).create_queue(unique("queue"))
        TableServiceClient(TABLES, credential=credential, **ONCE).create_table(unique("table"))

    def test_an_application_with_a_secret(self):
        os.environ.update(TENANT, AZURE_CLIENT_SECRET="any")
        self.use(EnvironmentCredential())
        self.use(DefaultAzureCredential())

    def test_a_workload(self):
        os.environ.update(TENANT, AZURE_FEDERATED_TOKEN_FILE=__file__)
        self.use(WorkloadIdentityCredential())

    def test_a_managed_identity_of_an_application(self):
        os.environ.update(IDENTITY_ENDPOINT=f"http://localhost:{PORT}/_lazurite/identity", IDENTITY_HEADER="any")
        self.use(ManagedIdentityCredential())
        self.use(DefaultAzureCredential())

    def test_a_managed_identity_of_a_machine(self):
        os.environ.update(AZURE_POD_IDENTITY_AUTHORITY_HOST=f"http://localhost:{PORT}")
        self.use(ManagedIdentityCredential(client_id="11111111-2222-3333-4444-555555555555"))

    def test_http_is_served_on_the_same_port(self):
        answer = urllib.request.urlopen(f"http://localhost:{PORT}/_lazurite/health")
        self.assertEqual(answer.status, 200)


if __name__ == "__main__":
    harness.main()
