"""Client-side encrypted properties: what is secret is encrypted, what queries need is not."""

import os

from azure.core import MatchConditions
from azure.core.exceptions import ResourceModifiedError, ResourceNotFoundError
from cryptography.exceptions import InvalidTag
from cryptography.hazmat.primitives.ciphers.aead import AESGCM
from staff import employees
from store import compare, insert_all, new_table

opaque, partly, payroll = (new_table(name) for name in ("Opaque", "Partly", "Payroll"))
# region seal
# A real program has it in a key vault.
CIPHER = AESGCM(AESGCM.generate_key(bit_length=256))
NONCE_BYTES = 12


def seal(partition, row, text):
    nonce = os.urandom(NONCE_BYTES)
    # The keys of the entity are authenticated: the value cannot be moved to another entity.
    return nonce + CIPHER.encrypt(nonce, text.encode(), f"{partition}/{row}".encode())


def unseal(entity):
    sealed, owner = entity["Secret"], f"{entity['PartitionKey']}/{entity['RowKey']}"
    return CIPHER.decrypt(sealed[:NONCE_BYTES], sealed[NONCE_BYTES:], owner.encode()).decode()


# endregion


# region naive
def store_opaque(one):
    secret = seal("Sales", one["Id"], f"{one['Age']} {one['Mail']}")
    return {"PartitionKey": "Sales", "RowKey": one["Id"], "Secret": secret}


def mails_by_decryption(age):
    # The service can filter by nothing: everything travels, and is decrypted.
    texts = map(unseal, opaque.query_entities("PartitionKey eq 'Sales'"))
    return [text.split()[1] for text in texts if text.startswith(f"{age} ")]


# endregion


# region advised
def store(one):
    # The age is for queries, the mail address is secret.
    return {
        "PartitionKey": "Sales",
        "RowKey": one["Id"],
        "Age": one["Age"],
        "Secret": seal("Sales", one["Id"], one["Mail"]),
    }


def mails(age):
    found = partly.query_entities(
        "PartitionKey eq 'Sales' and Age eq @age", parameters={"age": age}
    )
    return list(map(unseal, found))


# endregion


# region keys
# A key for each property and year. A program has those that it needs.
KEYS = {
    name: AESGCM(AESGCM.generate_key(bit_length=256))
    for name in ("mail_2025", "mail_2026", "salary_2025", "salary_2026")
}
CURRENT = {"Mail": "mail_2025", "Salary": "salary_2025"}


def owner(entity, name):
    # The name of the property as well: a value cannot be moved to another property.
    return f"{entity['PartitionKey']}/{entity['RowKey']}/{name}".encode()


def sealed(entity, name, text):
    """The two properties that are always written together: the value, and the name of its key."""
    key, nonce = CURRENT[name], os.urandom(NONCE_BYTES)
    value = nonce + KEYS[key].encrypt(nonce, text.encode(), owner(entity, name))
    return {name: value, name + "Key": key}


def unsealed(entity, name, keys=KEYS):
    value, cipher = entity[name], keys[entity[name + "Key"]]
    return cipher.decrypt(value[:NONCE_BYTES], value[NONCE_BYTES:], owner(entity, name)).decode()


# endregion


# region rotate
def rotate(table, name):
    """Encrypts a property under its current key, in all entities that name another key; returns
    their number."""
    changed, is_done = 0, False
    while not is_done:
        is_done = True
        found = table.query_entities(f"{name}Key ne @key", parameters={"key": CURRENT[name]})
        for row in found:
            is_done = False
            keys = {key: row[key] for key in ("PartitionKey", "RowKey")}
            guard = {"etag": row.metadata["etag"], "match_condition": MatchConditions.IfNotModified}
            try:
                table.update_entity({**keys, **sealed(row, name, unsealed(row, name))}, **guard)
                changed += 1
            except (ResourceModifiedError, ResourceNotFoundError):
                pass  # Another program changed or deleted it. The next round looks again.
    return changed


# endregion


insert_all(opaque, map(store_opaque, employees()))
insert_all(partly, map(store, employees()))
compare(lambda: mails_by_decryption(34), lambda: mails(34), "received")
partly.upsert_entity({**partly.get_entity("Sales", "000002"), "RowKey": "999999"})
try:
    mails(34)
    raise AssertionError("a value of another entity was accepted")
except InvalidTag:
    pass


def unsealing(entity, name, keys=KEYS):
    try:
        return unsealed(entity, name, keys)
    except (InvalidTag, KeyError) as error:
        return type(error).__name__


for one in employees(20):
    entity = {"PartitionKey": "Sales", "RowKey": one["Id"], "Age": one["Age"]}
    secrets = sealed(entity, "Mail", one["Mail"]) | sealed(entity, "Salary", "5000")
    payroll.create_entity(entity | secrets)

# A program that sends mail has the keys of mail addresses only.
ann = payroll.get_entity("Sales", "000000")
mail_keys = {name: key for name, key in KEYS.items() if name.startswith("mail_")}
print(
    "with the keys of mail:", unsealing(ann, "Mail", mail_keys), unsealing(ann, "Salary", mail_keys)
)

# From now on mail addresses have another key. Both are read meanwhile.
CURRENT["Mail"] = "mail_2026"
new_mail = sealed(ann, "Mail", "ann@example.org")
payroll.update_entity({"PartitionKey": "Sales", "RowKey": "000000", **new_mail})
ann = payroll.get_entity("Sales", "000000")
assert (unsealing(ann, "Mail"), unsealing(ann, "Salary")) == ("ann@example.org", "5000")
print("mail addresses under the new key:", rotate(payroll, "Mail"), "and one that was changed")
del KEYS["mail_2025"]
rows = list(payroll.list_entities())
assert [unsealing(row, "Mail") for row in rows[1:]] == [one["Mail"] for one in employees(20)][1:]
assert {unsealing(row, "Salary") for row in rows} == {"5000"}

# A merge of the value without the name of its key, and a value in another property.
CURRENT["Salary"] = "salary_2026"
lost = {"PartitionKey": "Sales", "RowKey": "000001"}
value = sealed(lost, "Salary", "6000")["Salary"]
payroll.update_entity({**lost, "Salary": value})
lost = payroll.get_entity("Sales", "000001")
print("a merge without the name of the key:", unsealing(lost, "Salary"))
moved = {**ann, "Salary": ann["Mail"], "SalaryKey": ann["MailKey"]}
print("a value of another property:", unsealing(moved, "Salary"))
