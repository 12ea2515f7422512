"""Client-side encrypted properties: what is secret is encrypted, what queries need is not."""

import os

from cryptography.exceptions import InvalidTag
from cryptography.hazmat.primitives.ciphers.aead import AESGCM
from staff import employees
from store import compare, insert_all, new_table

opaque, partly = new_table("Opaque"), new_table("Partly")
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


insert_all(opaque, map(store_opaque, employees()))
insert_all(partly, map(store, employees()))
compare(lambda: mails_by_decryption(34), lambda: mails(34), "received")
partly.upsert_entity({**partly.get_entity("Sales", "000002"), "RowKey": "999999"})
try:
    mails(34)
    raise AssertionError("a value of another entity was accepted")
except InvalidTag:
    pass
