"""Photo orders: customers upload photos, workers print them, and printed orders move to an
archive."""

import json
import secrets
import sys
import threading
import time
from contextlib import suppress
from pathlib import Path

from azure.core import MatchConditions
from azure.core.exceptions import HttpResponseError, ResourceNotFoundError
from azure.data.tables import UpdateMode

sys.path.insert(0, str(Path(__file__).parents[1]))
from launch import Kills, clients, container, delete_all, parse, patiently, queue, store, table

CUSTOMERS = ["ann", "bob", "cho"]
ORDERS_A_CUSTOMER = 12
WORKERS = 3
# Seconds after which a message returns whose worker has died.
HIDDEN_FOR = 2
DELIVERIES_MAX = 8
PAUSE_MIN, PAUSE_MAX = 0.02, 0.64
WIDTH, HEIGHT = 64, 48


class Shop:
    def __init__(self, connection):
        suffix = secrets.token_hex(4)
        tables, blobs, queues = clients(connection)
        self.orders, self.archive = (
            table(tables, kind + suffix) for kind in ("Orders", "Archive")
        )
        self.photos, self.prints = (
            container(blobs, f"{kind}-{suffix}") for kind in ("photos", "prints")
        )
        self.work, self.moves, self.poison = (
            queue(queues, f"{kind}-{suffix}") for kind in ("work", "moves", "poison")
        )

    # The customer

    def order(self, customer, number, photo):
        """Each step may be repeated. The message is last: its receiver finds the order and
        the photo."""
        self.photos.upload_blob(f"{customer}/{number}", photo, overwrite=True)
        self.orders.upsert_entity({"PartitionKey": customer, "RowKey": number, "State": "ordered"})
        self.work.send_message(json.dumps({"customer": customer, "number": number}))

    # The workers

    def print_photo(self, message):
        order = json.loads(message.content)
        name = f"{order['customer']}/{order['number']}"
        photo = self.photos.download_blob(name).readall()
        self.prints.upload_blob(name, grey_and_half_the_size(photo), overwrite=True)
        # The order is in the archive already if a worker before this one died after the next step.
        # An upsert would bring it back.
        with suppress(ResourceNotFoundError):
            self.orders.update_entity(
                {"PartitionKey": order["customer"], "RowKey": order["number"], "State": "printed"}
            )
        self.moves.send_message(message.content)

    def move_to_archive(self, message):
        order = json.loads(message.content)
        try:
            entity = self.orders.get_entity(order["customer"], order["number"])
        except ResourceNotFoundError:
            # Moved by a worker that died before it deleted the message.
            self.archive.get_entity(order["customer"], order["number"])
            return
        self.archive.upsert_entity(entity, mode=UpdateMode.REPLACE)
        # Refused if the order has changed since it was read; the message then returns, and the copy
        # is made again.
        guard = {"etag": entity.metadata["etag"], "match_condition": MatchConditions.IfNotModified}
        self.orders.delete_entity(entity, **guard)

    def take(self, queue, carry_out):
        """Receives one message and carries it out; false if there is none."""
        message = patiently(lambda: queue.receive_message(visibility_timeout=HIDDEN_FOR))
        if message is None:
            return False
        if message.dequeue_count > DELIVERIES_MAX:
            patiently(lambda: self.poison.send_message(message.content))
        else:
            try:
                patiently(lambda: carry_out(message))
            except ValueError:
                # For another worker, at once.
                with suppress(HttpResponseError):
                    patiently(lambda: queue.update_message(message, visibility_timeout=0))
                return True
            except HttpResponseError:
                # The message returns when its visibility timeout ends.
                return True
        # Last of all: if this worker dies before, another does the work again. A message that
        # another worker has received meanwhile is that worker's to delete.
        with suppress(HttpResponseError):
            patiently(lambda: queue.delete_message(message))
        return True

    # The figures

    def archived(self):
        return patiently(lambda: list(self.archive.list_entities()))

    def put_aside(self):
        return patiently(lambda: {message.content for message in self.poison.peek_messages(32)})

    def delete(self):
        delete_all(
            [self.orders, self.archive],
            [self.photos, self.prints],
            [self.work, self.moves, self.poison],
        )


def photo_of(customer, number):
    """A picture in the PPM format: 3 bytes a pixel, in colours that no other order has."""
    start = sum(customer.encode()) + int(number)
    return b"P6 %d %d 255\n" % (WIDTH, HEIGHT) + bytes(
        (start + place * 7) % 256 for place in range(3 * WIDTH * HEIGHT)
    )


def grey_and_half_the_size(photo):
    """The print, in the PGM format."""
    head, _, pixels = photo.partition(b"\n")
    if head != b"P6 %d %d 255" % (WIDTH, HEIGHT):
        raise ValueError("not a photo")
    rows = [pixels[3 * WIDTH * row : 3 * WIDTH * (row + 1)] for row in range(0, HEIGHT, 2)]
    grey = bytes(
        sum(row[place : place + 3]) // 3 for row in rows for place in range(0, 3 * WIDTH, 6)
    )
    return b"P5 %d %d 255\n" % (WIDTH // 2, HEIGHT // 2) + grey


def is_broken(customer, number):
    """One customer sends something that is no photo."""
    return (customer, number) == ("bob", "000007")


def all_orders():
    return [
        (customer, f"{number:06}") for customer in CUSTOMERS for number in range(ORDERS_A_CUSTOMER)
    ]


def run(shop, kills):
    is_closed = threading.Event()

    def customer(name):
        for number in range(ORDERS_A_CUSTOMER):
            order = name, f"{number:06}"
            photo = b"a cat" if is_broken(*order) else photo_of(*order)
            patiently(lambda: shop.order(*order, photo))

    def worker():
        pause = PAUSE_MIN
        while not is_closed.is_set():
            has_printed = shop.take(shop.work, shop.print_photo)
            has_moved = shop.take(shop.moves, shop.move_to_archive)
            if has_printed or has_moved:
                pause = PAUSE_MIN
            else:
                # Every look into an empty queue is a billed request: look less and less often.
                time.sleep(pause)
                pause = min(2 * pause, PAUSE_MAX)

    threads = [threading.Thread(target=customer, args=[name]) for name in CUSTOMERS]
    threads += [threading.Thread(target=worker) for _ in range(WORKERS)]
    for thread in threads:
        thread.start()
    try:
        deadline = time.monotonic() + 120
        while (done := len(shop.archived()) + len(shop.put_aside())) < len(all_orders()):
            assert time.monotonic() < deadline, f"{done} orders after two minutes"
            kills.at(done)
            time.sleep(0.02)
        # Messages that were sent twice are still to be carried out a second time.
        while any(
            queue.get_queue_properties().approximate_message_count
            for queue in (shop.work, shop.moves)
        ):
            time.sleep(0.05)
    finally:
        is_closed.set()
        for thread in threads:
            thread.join()


def check(shop):
    """Every order is where it belongs, once, with the right print."""
    broken = [order for order in all_orders() if is_broken(*order)]
    printed = [order for order in all_orders() if not is_broken(*order)]
    archived = shop.archived()
    assert [(one["PartitionKey"], one["RowKey"]) for one in archived] == printed
    assert {one["State"] for one in archived} == {"printed"}
    assert [(one["PartitionKey"], one["RowKey"]) for one in shop.orders.list_entities()] == broken
    for customer, number in printed:
        found = shop.prints.download_blob(f"{customer}/{number}").readall()
        assert found == grey_and_half_the_size(photo_of(customer, number)), (customer, number)
    assert shop.put_aside() == {
        json.dumps({"customer": customer, "number": number}) for customer, number in broken
    }
    print(
        f"{len(printed)} orders are printed and in the archive, each once; {len(broken)} is put aside; nothing is lost"
    )


def main():
    options = parse(__doc__)
    with store(options) as server:
        shop = Shop(server.connection)
        run(shop, Kills(server, len(all_orders()), options.kill))
        check(shop)
        shop.delete()


if __name__ == "__main__":
    main()
