"""The lines that dpctl prints of ranks."""


def lines_of(output):
    """Parses lines such as "[0 host] text" into [(rank, text)]."""
    pairs = []
    for line in output.splitlines():
        if line.startswith("["):
            label, text = line[1:].split("] ", 1)
            pairs.append((int(label.split()[0]), text))
    return pairs
