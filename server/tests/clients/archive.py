"""Archives former employees: an eventually consistent transaction over two partitions, as the design guide has it.

No transaction spans partitions, so the intention goes into a queue, and a worker carries it out in steps that may be
repeated: copy the entity to the archive, delete it where it was, and only then delete the message. A worker that dies at
any step leaves a message that becomes visible again, and the next worker repeats what was done. A message that cannot be
processed is moved aside once it has been delivered too often.
"""

import json

from azure.core.exceptions import ResourceExistsError, ResourceNotFoundError
from azure.data.tables import TableServiceClient, UpdateMode
from azure.storage.queue import QueueServiceClient

DELIVERIES_MAX = 3


class Archive:
    def __init__(self, connection, name="employees", hidden_for=30):
        """`hidden_for`: seconds after which another worker may take over from one that has died."""
        self.table = TableServiceClient.from_connection_string(connection).create_table_if_not_exists(name)
        queues = QueueServiceClient.from_connection_string(connection)
        self.queue, self.poison = (self._existing(queues, f"{name}-{kind}") for kind in ("archive", "archive-poison"))
        self.hidden_for = hidden_for

    @staticmethod
    def _existing(queues, name):
        try:
            return queues.create_queue(name)
        except ResourceExistsError:
            return queues.get_queue_client(name)

    def request(self, department, employee):
        self.queue.send_message(json.dumps({"department": department, "employee": employee}))

    def work(self, reached=lambda step: None):
        """Takes one message and carries it out: whether there was one. `reached` is told of each step that is done."""
        message = self.queue.receive_message(visibility_timeout=self.hidden_for)
        if message is None:
            return False
        reached("message taken")
        if message.dequeue_count > DELIVERIES_MAX:
            self.poison.send_message(message.content)
            reached("message moved aside")
        else:
            order = json.loads(message.content)
            self.move(order["department"], order["employee"], reached)
        self.queue.delete_message(message)
        return True

    def move(self, department, employee, reached):
        """Each step may find that it has been taken before."""
        try:
            entity = self.table.get_entity(department, employee)
            self.table.upsert_entity({**entity, "PartitionKey": f"{department}_former"}, mode=UpdateMode.REPLACE)
            reached("entity copied")
            self.table.delete_entity(department, employee)
            reached("entity deleted")
        except ResourceNotFoundError:
            self.table.get_entity(f"{department}_former", employee)  # Moved by a worker that died later.
