"""Changes files in the ways in which programs do, and compares them with what it remembers of them: once in each round a
little, and all of them when the file "stop" is there. A round takes a tenth of a second."""
import hashlib
import mmap
import os
import sys
import time

BLOCK = 4096
folder = sys.argv[1]
os.mkdir(folder)
os.chdir(folder)

block = hashlib.sha256(b"block").digest() * 32768  # 1 MiB
whole = hashlib.sha256()
with open("whole", "wb") as f:  # written once, and never again
    for i in range(48):
        part = i.to_bytes(8, "little") + block[8:]
        whole.update(part)
        f.write(part)
table = bytearray(8 << 20)  # written here and there
with open("table", "wb") as f:
    f.write(table)
with open("counter", "wb+") as f:  # mapped, and counted up without a system call
    f.truncate(BLOCK)
    counter = mmap.mmap(f.fileno(), BLOCK)
lines = 0  # appended to
wrong = []


def count():
    return int.from_bytes(counter[:8], "little")


def read(path):
    with open(path, "rb") as f:
        return f.read()


while not os.path.exists("stop"):
    if count() != lines:
        wrong.append("the mapped file has %d in round %d" % (count(), lines))
    lines += 1
    counter[:8] = lines.to_bytes(8, "little")
    with open("log", "a") as f:
        f.write("%d\n" % lines)
    at = lines * 7919 % (len(table) // BLOCK) * BLOCK
    table[at:at + 8] = lines.to_bytes(8, "little")
    with open("table", "r+b") as f:
        f.seek(at)
        f.write(table[at:at + 8])
    print(lines, flush=True)
    time.sleep(0.1)

if read("log").decode() != "".join("%d\n" % i for i in range(1, lines + 1)):
    wrong.append("log")
if read("table") != table:
    wrong.append("table")
if hashlib.sha256(read("whole")).digest() != whole.digest():
    wrong.append("whole")
if count() != lines or int.from_bytes(read("counter")[:8], "little") != lines:
    wrong.append("counter")
print("end:", "; ".join(wrong[:5]) or "all as remembered", flush=True)
