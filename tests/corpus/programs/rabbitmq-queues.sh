#!/bin/bash
# SPDX-FileCopyrightText: 2026 The singularity-slurm authors
# SPDX-License-Identifier: Apache-2.0
#
# What: RabbitMQ: a broker on Erlang, queues that last, acknowledged and rejected messages, exchanges, publishers confirmed
# Needs: rabbitmq-server python3-amqp
#SBATCH --job-name=rabbitmq-queues --ntasks=1 --output=log
set -eu
dir=$(mktemp -d)
export RABBITMQ_NODENAME="corpus@localhost" RABBITMQ_NODE_PORT=18510 RABBITMQ_DIST_PORT=18511 ERL_EPMD_PORT=18512 HOME="$dir" \
	RABBITMQ_NODE_IP_ADDRESS=127.0.0.1 RABBITMQ_MNESIA_BASE="$dir/base" RABBITMQ_LOG_BASE="$dir/log" RABBITMQ_PID_FILE="$dir/pid" \
	RABBITMQ_ENABLED_PLUGINS_FILE="$dir/plugins" RABBITMQ_CONF_ENV_FILE=/dev/null RABBITMQ_CONFIG_FILE="$dir/none" RABBITMQ_LOGS="$dir/log/log"
mkdir "$dir/base" "$dir/log"
echo '[].' >"$dir/plugins"
/usr/lib/rabbitmq/bin/rabbitmq-server >"$dir/output" 2>&1 &
server=$!
cat >client.py <<'PY'
import hashlib, threading, time
import amqp

def connect():
    c = amqp.Connection("127.0.0.1:18510", userid="guest", password="guest", confirm_publish=True)
    c.connect()
    return c

while True:
    try:
        connection = connect()
        break
    except (OSError, amqp.AMQPError):
        time.sleep(0.2)
print("serving", flush=True)
channel = connection.channel()
channel.exchange_declare("numbers", "topic", durable=True, auto_delete=False)
for name in ("even", "odd", "rejected"):
    channel.queue_declare(name, durable=True, auto_delete=False)
    if name != "rejected":
        channel.queue_bind(name, "numbers", f"{name}.#")
got = {"even": {}, "odd": {}}

def consume(name):
    c = connect()
    ch = c.channel()
    ch.basic_qos(0, 5, False)
    def take(message):
        n = int(message.body)
        tries = got[name].setdefault(n, [])
        tries.append(hashlib.sha256(str(n).encode()).hexdigest()[:8])
        if n % 9 == 4 and not message.delivery_info["redelivered"]:
            ch.basic_reject(message.delivery_tag, requeue=True)
        else:
            ch.basic_ack(message.delivery_tag)
    ch.basic_consume(name, callback=take)
    while len(got[name]) < 120 or any(len(t) < 2 for n, t in list(got[name].items()) if n % 9 == 4):
        c.drain_events(timeout=300)
    c.close()

consumers = [threading.Thread(target=consume, args=(name,)) for name in got]
for c in consumers:
    c.start()
for n in range(240):
    kind = ("even", "odd")[n % 2]
    channel.basic_publish(amqp.Message(str(n), delivery_mode=2), exchange="numbers", routing_key=f"{kind}.{n % 5}")
    if n % 30 == 29:
        print("published", n + 1, flush=True)
    time.sleep(0.04)
for c in consumers:
    c.join()
print("got", len(got["even"]), len(got["odd"]), hashlib.sha256(repr(sorted((k, sorted(v.items())) for k, v in got.items())).encode()).hexdigest())
connection.close()
PY
python3 client.py
kill $server
wait $server || true
epmd -port 18512 -kill >/dev/null 2>&1 || true
rm -rf "$dir" client.py
