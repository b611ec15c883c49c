"""Private loopback addresses and debug ports for tests that run at the same time.

A slot is a /24 of 127.0.0.0/8 (`127.A.B.*`) and one port on 127.0.0.1, held by a lock file for as long as the test
runs, so that several test processes on one machine never meet.
"""

import fcntl
import os
import random
import tempfile

_LOCK_DIR = os.path.join(tempfile.gettempdir(), f"warmroute-test-slots-{os.getuid()}")
_FIRST_DEBUG_PORT = 20000


class Slot:
    """`one_digit`: A and B have one digit each, so that 127.0.1.N can be replaced in texts of a fixed length."""

    def __init__(self, one_digit=False):
        os.makedirs(_LOCK_DIR, exist_ok=True)
        while True:
            if one_digit:
                a, b = random.randint(1, 9), random.randint(1, 9)
            else:
                a, b = random.randint(10, 29), random.randint(10, 209)
            self._file = open(os.path.join(_LOCK_DIR, f"{a}.{b}"), "w", encoding="ascii")
            try:
                fcntl.flock(self._file, fcntl.LOCK_EX | fcntl.LOCK_NB)
                break
            except OSError:
                self._file.close()
        self.prefix = f"127.{a}.{b}."
        self.debug_port = _FIRST_DEBUG_PORT + (a * 10 + b if one_digit else 200 + (a - 10) * 200 + (b - 10))

    def ip(self, last):
        return f"{self.prefix}{last}"

    def release(self):
        self._file.close()
