# SPDX-License-Identifier: Apache-2.0
"""What the ready models answer in a terminal: python docs/pictures/terminal.py. No network is needed with the extra `offline`."""

import fcntl
import os
import re
import shlex
import struct
import subprocess
import sys
import termios
from pathlib import Path

from rich.console import CONSOLE_SVG_FORMAT, Console
from rich.text import Text


WIDTH = 92
COMMANDS = (
    'hf-emotion predict goemotions "I got the job!" "My stomach is in knots."',
    'hf-emotion predict reviews "Clean room, rude staff."',
    'hf-emotion predict aspects "The pizza was cold but our waiter was lovely."',
)


def printed(command: str) -> str:
    """What the command prints in a terminal."""
    ours, its = os.openpty()
    fcntl.ioctl(its, termios.TIOCSWINSZ, struct.pack("HHHH", 24, WIDTH, 0, 0))
    program, *arguments = shlex.split(command)
    line = [str(Path(sys.executable).with_name(program)), *arguments]
    width = {"TERM": "xterm", "COLUMNS": str(WIDTH)}  # which the environment may name otherwise
    with subprocess.Popen(line, stdout=its, stderr=subprocess.DEVNULL, env=os.environ | width) as process:
        os.close(its)
        parts = []
        try:
            while part := os.read(ours, 4096):
                parts.append(part)
        except OSError:  # Linux: the other end is closed
            pass
    assert process.returncode == 0, command
    return b"".join(parts).decode().replace("\r\n", "\n")


if __name__ == "__main__":
    console = Console(record=True, width=WIDTH, file=open(os.devnull, "w"), force_terminal=True, highlight=False)
    for command in COMMANDS:
        console.print(Text.assemble(("$ ", "green"), (command, "bold")))
        console.print(Text.from_ansi(printed(command)))
    # Pages show pictures without fonts of other sites.
    layout = re.sub(r"@font-face \{\{.*?\}\}\s*", "", CONSOLE_SVG_FORMAT, flags=re.DOTALL)
    picture = console.export_svg(title="hf-emotion", code_format=layout, unique_id="terminal")
    Path(__file__).with_suffix(".svg").write_text(
        "\n".join(map(str.rstrip, picture.splitlines())) + "\n", encoding="utf-8"
    )
