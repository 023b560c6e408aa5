"""The rule of the instrumentation values, written a second time: from streams of probes to the
values of functions. It shares nothing with the product but doc/probes.md."""
import random

FAMILIES = ("elapsed_inclusive", "elapsed_exclusive", "application_inclusive",
            "application_exclusive")


class Function:
    def __init__(self):
        self.calls = 0
        self.sums = dict.fromkeys(FAMILIES, 0)
        self.low, self.high = {}, {}

    def returned(self, values):
        for family, value in zip(FAMILIES, values):
            self.low[family] = min(value, self.low.get(family, value))
            self.high[family] = max(value, self.high.get(family, value))


class Call:
    def __init__(self, function, site, depth):
        self.function, self.site, self.depth = function, site, depth
        self.values = [0, 0, 0, 0]


class Thread:
    """One thread's stack, and what its intervals do to the functions."""

    def __init__(self, functions):
        self.functions, self.stack = functions, []

    def interval(self, ticks, event):
        if not self.stack:
            return
        ticks = max(ticks, 0)
        for family, applies in ((0, True), (2, not event)):
            if not applies:
                continue
            for function in {call.function for call in self.stack}:
                self.functions[function].sums[FAMILIES[family]] += ticks
            self.functions[self.stack[-1].function].sums[FAMILIES[family + 1]] += ticks
            for call in self.stack:
                call.values[family] += ticks
            self.stack[-1].values[family + 1] += ticks

    def close(self):
        call = self.stack.pop()
        self.functions[call.function].returned(call.values)

    def enter(self, function, site, depth, ticks, event):
        self.interval(ticks, event)
        while self.stack and self.stack[-1].depth >= depth:  # their exits never came
            self.close()
        self.stack.append(Call(function, site, depth))
        self.functions[function].calls += 1

    def exit(self, function, site, ticks, event):
        self.interval(ticks, event)
        if not any((c.function, c.site) == (function, site) for c in self.stack):
            return
        while (self.stack[-1].function, self.stack[-1].site) != (function, site):
            self.close()
        self.close()


def random_thread(rng, length, functions):
    """Lines of a script for one thread."""
    stack, lines = [], ["T"]
    for _ in range(length):
        ticks = rng.choice([0, 1, 7, 100, 12345, 5_000_000_000, -50 if rng.random() < .1 else 3])
        event = int(rng.random() < .2)
        if stack and (rng.random() < .45 or len(stack) > 40):
            function, site = stack.pop()
            if rng.random() < .1:
                lines.append("L")
            else:
                lines.append(f"X {function:x} {site:x} {ticks} {event}")
        else:
            function = 0x1000 + 16 * rng.randrange(functions)
            site = 0x9000 + 8 * len(lines)  # its own: see doc/probes.md, "What cannot be told"
            stack.append((function, site))
            lines.append(f"E {function:x} {site:x} {ticks} {event}")
    while stack:
        function, site = stack.pop()
        lines.append(f"X {function:x} {site:x} 5 0")
    return lines


def play(lines):
    """What the script means: functions by address."""
    functions, thread, depth = {}, None, 0
    for line in lines:
        kind, *words = line.split()
        if kind == "T":
            thread, depth = Thread(functions), 0
        elif kind == "L":
            depth -= 1
        else:
            function, site = int(words[0], 16), int(words[1], 16)
            ticks, event = int(words[2]), bool(int(words[3]))
            functions.setdefault(function, Function())
            if kind == "E":
                depth += 1
                thread.enter(function, site, depth, ticks, event)
            else:
                depth -= 1
                thread.exit(function, site, ticks, event)
    return functions


def random_script(seed):
    rng = random.Random(seed)
    lines = []
    for _ in range(rng.randrange(1, 5)):
        lines += random_thread(rng, rng.choice([5, 50, 400, 3000]), rng.choice([2, 5, 60]))
    return lines
