"""The employees that the programs of the guide store."""

DEPARTMENTS = ["Sales", "Marketing", "Finance"]
LAST_NAMES = ["Jones", "Chen", "Silva", "Novak", "Haddad", "Smith", "Okafor"]


def employees(count=60):
    for number in range(count):
        last = LAST_NAMES[number % len(LAST_NAMES)]
        yield {
            "Department": DEPARTMENTS[number % len(DEPARTMENTS)],
            "Id": f"{number:06}",
            "LastName": last,
            "Mail": f"{last.lower()}.{number}@example.com",
            "Age": 20 + number * 7 % 45,
        }
