"""Directory: the people of many tenants, found by id, mail address and last name; each user has a
signature."""

import json
import secrets
import sys
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from datetime import datetime, timedelta, timezone
from pathlib import Path

from azure.core import MatchConditions
from azure.core.credentials import AzureSasCredential
from azure.core.exceptions import HttpResponseError, ResourceNotFoundError
from azure.data.tables import (
    TableAccessPolicy,
    TableClient,
    TableTransactionError,
    UpdateMode,
    generate_table_sas,
)

sys.path.insert(0, str(Path(__file__).parents[1]))
from launch import (
    TABLE_RETRIES,
    Kills,
    clients,
    container,
    delete_all,
    parse,
    patiently,
    queue,
    store,
    table,
)

TENANTS = ["contoso", "fabrikam", "northwind"]
PEOPLE = 15
LAST_NAMES = ["Jones", "Chen", "Silva", "Novak", "Haddad"]
# Seconds that a writer may take; then a worker does what is missing.
WRITER_SECONDS_MAX = 1
DELIVERIES_MAX = 20
# The character after '_': the end of the range of keys that begin with a prefix.
AFTER_UNDERSCORE = "`"


class Directory:
    """One table. In the partition of a tenant: `person_ID`, `mail_ADDRESS` and `name_LASTNAME` (a
    list of ids), and the notes of each user, `note_ID_NUMBER`. In partitions `login_LETTER`: the
    tenant and id of each mail address."""

    def __init__(self, connection):
        suffix = secrets.token_hex(4)
        self.tables, blobs, queues = clients(connection)
        self.table = table(self.tables, "Directory" + suffix)
        self.photos = container(blobs, "photos-" + suffix)
        self.changes = queue(queues, "changes-" + suffix)

    def delete(self):
        delete_all([self.table], [self.photos], [self.changes])

    # Writers

    def add(self, tenant, person, photo):
        """Each step may be repeated. If this program dies on the way, `repair` does the rest."""
        keys = {"tenant": tenant, "id": person["Id"]}
        message = self.changes.send_message(json.dumps(keys), visibility_timeout=WRITER_SECONDS_MAX)
        self.photos.upload_blob(f"{tenant}/{person['Id']}", photo, overwrite=True)
        self.add_to_tenant(tenant, person)
        self.update_login(**keys)
        # A worker that received the message meanwhile deletes it.
        with suppress(HttpResponseError):
            self.changes.delete_message(message)

    def add_to_tenant(self, tenant, person):
        """The person and both indexes in one transaction; again if another writer changed the list
        of the last name."""
        rows = [
            {"PartitionKey": tenant, "RowKey": key, **person}
            for key in (f"person_{person['Id']}", f"mail_{person['Mail']}")
        ]
        name_key = "name_" + person["LastName"]
        while True:
            try:
                index = self.table.get_entity(tenant, name_key)
                # If the answer of the first attempt was lost, the id is in the list already.
                index["Ids"] = ",".join(sorted({*index["Ids"].split(","), person["Id"]}))
                guard = {
                    "etag": index.metadata["etag"],
                    "match_condition": MatchConditions.IfNotModified,
                }
                change = ("update", index, {"mode": UpdateMode.REPLACE, **guard})
            except ResourceNotFoundError:
                change = (
                    "create",
                    {"PartitionKey": tenant, "RowKey": name_key, "Ids": person["Id"]},
                )
            try:
                return self.table.submit_transaction([*(("upsert", row) for row in rows), change])
            except TableTransactionError as error:
                if error.status_code not in (409, 412):
                    raise

    def update_login(self, tenant, id):
        """The entity that finds the tenant of a mail address. It is in another partition, so no
        transaction covers it."""
        person = self.table.get_entity(tenant, "person_" + id)
        partition = "login_" + person["Mail"][0]
        self.table.upsert_entity(
            {"PartitionKey": partition, "RowKey": person["Mail"], "Tenant": tenant, "Id": id}
        )

    def repair(self):
        """Takes one message of a writer that did not delete it: whether there was one."""
        message = self.changes.receive_message(visibility_timeout=WRITER_SECONDS_MAX)
        if message is None:
            return False
        try:
            self.update_login(**json.loads(message.content))
        except ResourceNotFoundError:
            # The writer has not stored the person yet, or died before. After some deliveries it
            # must be the latter, and there is nothing to repair.
            if message.dequeue_count < DELIVERIES_MAX:
                return True
        with suppress(HttpResponseError):
            self.changes.delete_message(message)
        return True

    # Readers

    def log_in(self, mail):
        """Tenant and id of a mail address: one entity, whatever the number of tenants."""
        login = self.table.get_entity("login_" + mail[0], mail)
        return login["Tenant"], login["Id"]

    def named(self, tenant, last_name):
        ids = self.table.get_entity(tenant, "name_" + last_name)["Ids"].split(",")
        return [self.table.get_entity(tenant, "person_" + id) for id in ids]

    # Signatures

    def publish_policies(self):
        now = datetime.now(timezone.utc)
        times = {"start": now - timedelta(minutes=1), "expiry": now + timedelta(hours=8)}
        permissions = {"readers": "r", "writers": "raud"}
        self.table.set_table_access_policy(
            {
                name: TableAccessPolicy(permission=permission, **times)
                for name, permission in permissions.items()
            }
        )

    def people_client(self, tenant):
        """What a user may read of others: the people of the tenant. No indexes, no notes, no other
        tenant."""
        return self._client("readers", tenant, "person_", "person" + AFTER_UNDERSCORE)

    def notes_client(self, tenant, id):
        """What a user may read and write: the user's own notes."""
        return self._client("writers", tenant, f"note_{id}_", f"note_{id}" + AFTER_UNDERSCORE)

    def _client(self, policy, tenant, first, last):
        signature = generate_table_sas(
            self.tables.credential,
            self.table.table_name,
            policy_id=policy,
            start_pk=tenant,
            end_pk=tenant,
            start_rk=first,
            end_rk=last,
        )
        return TableClient(
            self.tables.url,
            self.table.table_name,
            credential=AzureSasCredential(signature),
            **TABLE_RETRIES,
        )

    def revoke(self):
        self.table.set_table_access_policy({})


def people_of(tenant):
    for number in range(PEOPLE):
        last = LAST_NAMES[number % len(LAST_NAMES)]
        mail = f"{last.lower()}.{number}@{tenant}.example"
        yield {"Id": f"{number:06}", "LastName": last, "Mail": mail}


def photo_of(tenant, person):
    return f"{tenant} {person['Mail']} ".encode() * 100


def run(directory, kills):
    """Two imports for each tenant at the same time, which meet on the lists of last names."""
    added = []
    is_complete = threading.Event()

    def load(tenant, part):
        for person in list(people_of(tenant))[part::2]:
            patiently(lambda: directory.add(tenant, person, photo_of(tenant, person)))
            added.append(person)

    def repair():
        while not is_complete.is_set():
            if not patiently(directory.repair):
                is_complete.wait(0.5)

    with ThreadPoolExecutor() as threads:
        imports = [threads.submit(load, tenant, part) for tenant in TENANTS for part in (0, 1)]
        repairs = threads.submit(repair)
        try:
            while not all(one.done() for one in imports):
                kills.at(len(added))
                time.sleep(0.01)
            # One writer dies between two writes.
            patiently(lambda: die_on_the_way(directory))
            deadline = time.monotonic() + 60
            while directory.changes.get_queue_properties().approximate_message_count:
                assert time.monotonic() < deadline, "messages are left after a minute"
                time.sleep(0.05)
        finally:
            is_complete.set()
        for one in (*imports, repairs):
            one.result()


LATE = {"Id": "999999", "LastName": "Okafor", "Mail": "late@contoso.example"}


def die_on_the_way(directory):
    """What `add` does until a death before the entity for the login."""
    message = json.dumps({"tenant": "contoso", "id": LATE["Id"]})
    directory.changes.send_message(message, visibility_timeout=WRITER_SECONDS_MAX)
    photo = photo_of("contoso", LATE)
    directory.photos.upload_blob(f"contoso/{LATE['Id']}", photo, overwrite=True)
    directory.add_to_tenant("contoso", LATE)


def everyone():
    return [(tenant, person) for tenant in TENANTS for person in people_of(tenant)] + [
        ("contoso", LATE)
    ]


def check_indexes(directory):
    """Every person is found in every way, and the indexes hold nothing else."""
    for tenant, person in everyone():
        row = directory.table.get_entity(tenant, "mail_" + person["Mail"])
        assert {key: row[key] for key in person} == person
        assert is_findable(directory, tenant, person), f"{person['Mail']} cannot log in"
        assert directory.photos.download_blob(f"{tenant}/{person['Id']}").readall() == photo_of(
            tenant, person
        )
    for tenant in TENANTS:
        for last_name in LAST_NAMES:
            expected = [
                person["Id"] for person in people_of(tenant) if person["LastName"] == last_name
            ]
            assert [person["Id"] for person in directory.named(tenant, last_name)] == expected
    rows = list(directory.table.list_entities(select=["PartitionKey", "RowKey"]))
    names = len({(tenant, person["LastName"]) for tenant, person in everyone()})
    assert len(rows) == 3 * len(everyone()) + names, len(rows)


def is_findable(directory, tenant, person):
    with suppress(ResourceNotFoundError):
        return directory.log_in(person["Mail"]) == (tenant, person["Id"])


def check_signatures(directory):
    directory.publish_policies()
    tenant, id = directory.log_in("chen.1@fabrikam.example")
    people, notes = directory.people_client(tenant), directory.notes_client(tenant, id)
    # Queries without a filter: the signature limits them.
    assert [one["Mail"] for one in people.list_entities()] == [
        one["Mail"] for one in people_of(tenant)
    ]
    note = {"PartitionKey": tenant, "RowKey": f"note_{id}_1", "Text": "call Ann"}
    patiently(lambda: notes.upsert_entity(note))
    assert [one["Text"] for one in notes.list_entities()] == ["call Ann"]
    refused = [
        lambda: people.get_entity("contoso", "person_000001"),
        lambda: people.get_entity(tenant, "name_Chen"),
        lambda: people.upsert_entity({"PartitionKey": tenant, "RowKey": "person_000001"}),
        lambda: notes.get_entity(tenant, "note_000002_1"),
        lambda: notes.upsert_entity({"PartitionKey": tenant, "RowKey": "person_000001"}),
    ]
    assert all(map(is_refused, refused))
    directory.revoke()
    assert is_refused(lambda: list(people.list_entities()))
    assert is_refused(lambda: notes.get_entity(tenant, f"note_{id}_1"))


def is_refused(work):
    try:
        patiently(work)
    except HttpResponseError as error:
        return error.status_code == 403
    return False


def main():
    options = parse(__doc__)
    with store(options) as server:
        directory = Directory(server.connection)
        run(directory, Kills(server, len(TENANTS) * PEOPLE, options.kill))
        check_indexes(directory)
        check_signatures(directory)
        directory.delete()
    print(
        f"{len(everyone())} people of {len(TENANTS)} tenants are in every index, each once; nothing is lost"
    )
    print(
        "a user sees the people of the tenant and the user's own notes, and nothing after the policies are gone"
    )


if __name__ == "__main__":
    main()
