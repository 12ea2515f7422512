"""Eventually consistent transactions: employees move to the archive, although the worker dies after
every step."""

import json

from azure.core import MatchConditions
from azure.core.exceptions import ResourceNotFoundError
from azure.data.tables import UpdateMode
from staff import employees
from store import insert_all, new_queue, new_table

table = new_table("Staff")
moves, poison = new_queue("moves"), new_queue("poison")


# region archive
def archive_of(number):
    # Ten partitions by the last digit: one alone would take all writes to the archive.
    return "Archive_" + number[-1]


# endregion


# region naive
def move_directly(department, number):
    entity = table.get_entity(department, number)
    table.upsert_entity({**entity, "PartitionKey": archive_of(number)}, mode=UpdateMode.REPLACE)
    # A program that dies here leaves the employee in both partitions, and nothing that says so.
    table.delete_entity(department, number)


# endregion


# region advised
DELIVERIES_MAX = 5


def request_move(department, number):
    moves.send_message(json.dumps({"department": department, "id": number}))


def carry_out(message, reached=lambda step: None):
    if message.dequeue_count > DELIVERIES_MAX:
        # No worker can carry it out. Put aside, it does not hold up the others.
        poison.send_message(message.content)
    else:
        move = json.loads(message.content)
        department, number = move["department"], move["id"]
        try:
            entity = table.get_entity(department, number)
            table.upsert_entity(
                {**entity, "PartitionKey": archive_of(number)}, mode=UpdateMode.REPLACE
            )
            reached("copied")
            # Fails if the employee has changed in the meantime. The message then comes back, and a
            # worker copies again.
            guard = {
                "etag": entity.metadata["etag"],
                "match_condition": MatchConditions.IfNotModified,
            }
            table.delete_entity(entity, **guard)
            reached("deleted")
        except ResourceNotFoundError:
            # A worker moved it, and died before it deleted the message.
            table.get_entity(archive_of(number), number)
    # Last of all: until then the message comes back if this worker dies.
    moves.delete_message(message)


def work():
    for message in moves.receive_messages(visibility_timeout=30):
        carry_out(message)


# endregion


class Death(Exception):
    """The worker dies."""


def die_at(last_step):
    def reached(step):
        if step == last_step:
            raise Death

    return reached


staff = list(employees(9))
insert_all(
    table, ({"PartitionKey": one["Department"], "RowKey": one["Id"], **one} for one in staff)
)
move_directly("Sales", "000000")
for one in staff[1:]:
    request_move(one["Department"], one["Id"])
moves.send_message("no JSON at all")
attempts = 0
while (message := moves.receive_message(visibility_timeout=30)) is not None:
    try:
        carry_out(message, die_at(["copied", "deleted", "never"][attempts % 3]))
    except (Death, ValueError):
        # What the end of the visibility timeout does, at once.
        moves.update_message(message.id, message.pop_receipt, visibility_timeout=0)
    attempts += 1
assert attempts > len(staff)
assert [(one["PartitionKey"], one["RowKey"]) for one in table.list_entities()] == sorted(
    (archive_of(one["Id"]), one["Id"]) for one in staff
)
assert [message.content for message in poison.receive_messages()] == ["no JSON at all"]
print(f"{len(staff)} employees moved in {attempts} deliveries, 1 message put aside")
