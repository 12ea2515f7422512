"""The lines of Storage Analytics logs."""


def fields(line):
    """The fields of a line: semicolons inside quotes are part of theirs."""
    found, quoted = [""], False
    for letter in line:
        quoted ^= letter == '"'
        if letter == ";" and not quoted:
            found.append("")
        else:
            found[-1] += letter
    return found
