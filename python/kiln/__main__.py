"""`python -m kiln`: the kiln command."""
import os
import sys

from . import _command
from ._errors import Error


def main() -> int:
    try:
        command = _command.path()
    except Error as error:
        print(f"kiln: {error}", file=sys.stderr)
        return 3
    os.execv(command, [command, *sys.argv[1:]])


if __name__ == "__main__":
    sys.exit(main())
