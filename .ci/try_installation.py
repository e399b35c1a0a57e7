"""Try an installed `anaphora` as somebody does who has nothing yet: serve a folder, with an empty home.

    python .ci/try_installation.py ENVIRONMENT/bin/anaphora

Models are fetched as on any first start. A question and a follow-up are asked over HTTP; their answers must quote the
folder.
"""

import json
import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from urllib.request import Request, urlopen

PAGES = {
    "leave.md": "# Parental leave\n\nParental leave lasts ten weeks. Apply with form HR-12.\n\n"
    "## Ways to apply\n\nForm HR-12 can be sent by fax to 555-0199.\n",
    "parking.md": "# Parking\n\nA parking permit costs twelve dollars a month.\n",
}


def ask(url: str, *messages: tuple[str, str]) -> str:
    """The answer to the last of the messages (role, content)."""
    body = {"model": "docs", "messages": [{"role": role, "content": content} for role, content in messages]}
    request = Request(f"{url}/v1/chat/completions", json.dumps(body).encode(), {"Content-Type": "application/json"})
    with urlopen(request, timeout=300) as response:
        return str(json.load(response)["choices"][0]["message"]["content"])


def main(command: Path) -> None:
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        (folder / "docs").mkdir()
        for page, text in PAGES.items():
            (folder / "docs" / page).write_text(text, "utf-8")
        kept = {key: value for key, value in os.environ.items() if not key.startswith(("PYTHON", "ANAPHORA", "XDG"))}
        line = [str(command.absolute()), "serve", "--docs", "docs", "--port", "0"]
        began = time.monotonic()
        environment = {**kept, "HOME": name}
        with subprocess.Popen(line, cwd=folder, env=environment, stdout=subprocess.PIPE, text=True) as server:
            try:
                assert server.stdout is not None
                said = server.stdout.readline()
                print(f"{time.monotonic() - began:.0f} s: {said.strip()}")
                url = said.split(" at ")[1].split()[0]
                first = ask(url, ("user", "How long is parental leave?"))
                print(first)
                assert "ten weeks" in first
                follow_up = ask(
                    url,
                    ("user", "How do I apply for parental leave?"),
                    ("assistant", "Apply with form HR-12."),
                    ("user", "and by fax?"),
                )
                print(follow_up)
                assert "555-0199" in follow_up
                with urlopen(url, timeout=60) as page:
                    assert "text/html" in page.headers["content-type"]
            finally:
                server.terminate()
        print("It serves a folder, answers a follow-up and shows its page.")


if __name__ == "__main__":
    main(Path(sys.argv[1]))
