# gdb's own view of some cores, one line for each thing it says.
import json
import os

import gdb

CALLEE_SAVED = ["rbx", "rbp", "r12", "r13", "r14", "r15", "rsp"]


def number(frame, register):
    value = frame.read_register(register)
    if value.is_optimized_out:
        return None
    return int(value.cast(gdb.lookup_type("unsigned long"))) & (2**64 - 1)


def frames(limit):
    frame = gdb.newest_frame()
    while frame is not None and limit > 0:
        if frame.type() == gdb.TAILCALL_FRAME:
            # Left no trace on the stack: gdb infers it from the debug
            # information of calls.
            frame = frame.older()
            continue
        place = frame.find_sal()
        symbolic = place.symtab is not None
        inline = frame.type() == gdb.INLINE_FRAME
        yield {
            "pc": frame.pc(),
            "name": frame.name(),
            "inlined": inline,
            "signal": frame.type() == gdb.SIGTRAMP_FRAME,
            "file": os.path.basename(place.symtab.filename) if symbolic else None,
            "line": place.line if symbolic else None,
            "registers": [number(frame, register) for register in CALLEE_SAVED],
        }
        frame = frame.older()
        limit -= 1


for option in [
    "pagination off",
    "backtrace past-main on",
    "debuginfod enabled off",
    "auto-load off",
]:
    try:
        gdb.execute("set " + option, to_string=True)
    except gdb.error:
        pass
gdb.execute("file " + os.environ["PROGRAM"], to_string=True)
for core in os.environ["CORES"].split(":"):
    gdb.execute("core-file " + core, to_string=True)
    threads = []
    for thread in gdb.selected_inferior().threads():
        thread.switch()
        limit = int(os.environ["LIMIT"])
        threads.append({"id": thread.ptid[1], "frames": list(frames(limit))})
    print("ORACLE " + json.dumps({"core": core, "threads": threads}))
