"""What workers share: requests come as lines of JSON on standard input, answers go as lines of JSON to standard output.

A worker is a script that the Python of a peer's environment runs, so it may import nothing of ours but this file, which
lies beside it. Its first request is "prepare", with the setting; each "run" then does the work so many times. It
answers what it found, and how many seconds that took each time, or an error. It ends with its input.
"""

import json
import os
import sys
import time


def serve(prepare):
    """``prepare(setting)`` gives the function that does the work once and returns facts about what came out."""
    answers = os.fdopen(os.dup(1), "w", encoding="utf-8")  # libraries may print: not into our answers
    os.dup2(2, 1)
    run = None
    for line in sys.stdin:
        request = json.loads(line)
        try:
            if request["do"] == "prepare":
                run = prepare(request["setting"])
                answer = {}
            else:
                start = time.perf_counter()
                for _ in range(request["calls"]):
                    found = run()
                answer = {"seconds": (time.perf_counter() - start) / request["calls"], "found": found}
        except Exception as error:
            answer = {"error": f"{type(error).__name__}: {error}"}
        answers.write(json.dumps(answer) + "\n")
        answers.flush()
