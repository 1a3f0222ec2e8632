#!/bin/bash
# SPDX-FileCopyrightText: 2026 The singularity-slurm authors
# SPDX-License-Identifier: Apache-2.0
#
# What: psycopg clients of a PostgreSQL server outside of the job: two threads whose transactions are run again when the connection is lost
# Needs: python3-psycopg2
# Site: postgres
#SBATCH --job-name=postgres-outside --ntasks=1 --output=log
set -eu
cat >work.py <<'PY'
import hashlib, os, threading, time
import psycopg2

schema = "job" + os.environ["SLURM_JOB_ID"]

class Database:
    """A connection that is made again, and the transaction with it, when it is lost."""

    def __init__(self):
        self.connection = None

    def __call__(self, work):
        while True:
            try:
                if self.connection is None:
                    self.connection = psycopg2.connect(host="ctl", user="postgres", dbname="postgres", options=f"-c search_path={schema}")
                with self.connection, self.connection.cursor() as cursor:
                    return work(cursor)
            except (psycopg2.OperationalError, psycopg2.InterfaceError):
                if self.connection is not None:
                    self.connection.close()
                self.connection = None
                time.sleep(0.5)

def create(cursor):
    cursor.execute(f"create schema if not exists {schema}")
    cursor.execute("create table if not exists account (id int primary key, balance bigint)")
    cursor.execute("create table if not exists transfer (id text primary key, source int, target int, amount int)")
    cursor.execute("insert into account select n, 1000 from generate_series(0, 9) n on conflict do nothing")

def transfer(worker, turn):
    def work(cursor):
        source, target, amount = turn % 5 + 5 * worker, (turn * 7 + 1) % 5 + 5 * worker, turn * 13 % 50
        cursor.execute("insert into transfer values (%s, %s, %s, %s) on conflict do nothing", (f"{worker}-{turn}", source, target, amount))
        if cursor.rowcount: # else an earlier run of this transaction has come through
            cursor.execute("update account set balance = balance - %s where id = %s", (amount, source))
            cursor.execute("select pg_sleep(0.03)")
            cursor.execute("update account set balance = balance + %s where id = %s", (amount, target))
    return work

def balances(cursor):
    cursor.execute("select id, balance from account order by id")
    return cursor.fetchall()

def client(worker):
    db = Database()
    for turn in range(90):
        db(transfer(worker, turn))
        if worker == 0 and turn % 30 == 29:
            print("turn", turn + 1, db(balances)[:5], flush=True)
        time.sleep(0.06)

db = Database()
db(create)
print("tables made", flush=True)
threads = [threading.Thread(target=client, args=(n,)) for n in range(2)]
for t in threads:
    t.start()
for t in threads:
    t.join()
def transfers(cursor):
    cursor.execute("select * from transfer order by id")
    return cursor.fetchall()
print(db(balances))
print(hashlib.sha256(repr(db(transfers)).encode()).hexdigest())
db(lambda cursor: cursor.execute(f"drop schema {schema} cascade"))
PY
python3 work.py
