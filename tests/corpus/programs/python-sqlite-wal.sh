#!/bin/bash
# SPDX-FileCopyrightText: 2026 The singularity-slurm authors
# SPDX-License-Identifier: Apache-2.0
#
# What: one process writes an SQLite database in WAL mode, two others read it all along
# Needs: python3
#SBATCH --job-name=python-sqlite-wal --ntasks=1 --output=log
set -eu
# In /tmp: WAL shares memory through a mapped file, which no network folder can promise.
db=$(mktemp -d)
export db
cat >writer.py <<'PY'
import os, random, sqlite3, time
rng = random.Random(7)
c = sqlite3.connect(os.environ["db"] + "/db", isolation_level=None, timeout=30)
print(c.execute("PRAGMA journal_mode=WAL").fetchone()[0], flush=True)
c.execute("CREATE TABLE account(id INTEGER PRIMARY KEY, balance INTEGER)")
c.execute("CREATE TABLE move(n INTEGER PRIMARY KEY, a, b, amount)")
c.executemany("INSERT INTO account VALUES(?, 1000)", [(i,) for i in range(200)])
for turn in range(70):
    c.execute("BEGIN IMMEDIATE")
    for _ in range(20):
        a, b, amount = rng.randrange(200), rng.randrange(200), rng.randrange(50)
        c.execute("UPDATE account SET balance = balance - ? WHERE id = ?", (amount, a))
        c.execute("UPDATE account SET balance = balance + ? WHERE id = ?", (amount, b))
        c.execute("INSERT INTO move(a, b, amount) VALUES(?, ?, ?)", (a, b, amount))
    c.execute("ROLLBACK" if turn % 10 == 5 else "COMMIT")
    if turn % 14 == 13:
        print("turn", turn + 1, c.execute("SELECT count(*), max(balance) FROM account, move").fetchone(), flush=True)
    time.sleep(0.08)
open(os.environ["db"] + "/done", "w").close()
PY
cat >reader.py <<'PY'
import os, sqlite3, time
c = sqlite3.connect(os.environ["db"] + "/db", timeout=30)
while not os.path.exists(os.environ["db"] + "/done"):
    total = c.execute("SELECT sum(balance) FROM account").fetchone()[0]
    if total != 200_000:
        raise SystemExit(f"a reader saw {total}")
    time.sleep(0.03)
PY
mkfifo "$db/ready"
{ python3 writer.py; echo end; } | while read -r line; do
	echo "$line"
	[ "$line" != wal ] || echo >"$db/ready"
done &
read -r _ <"$db/ready"
while ! sqlite3 "$db/db" "SELECT 1 FROM account LIMIT 1" 2>/dev/null | grep -q 1; do sleep 0.02; done
python3 reader.py & r1=$!
python3 reader.py & r2=$!
wait $r1 && wait $r2 && wait
sqlite3 "$db/db" "PRAGMA integrity_check" "SELECT count(*), sum(amount) FROM move" "SELECT * FROM account" >accounts
head -n 2 accounts
sha256sum accounts
rm -r "$db"
