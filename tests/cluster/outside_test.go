//go:build cluster

// SPDX-FileCopyrightText: 2026 The singularity-slurm authors
// SPDX-License-Identifier: Apache-2.0

package cluster

import (
	"fmt"
	"strings"
	"testing"
	"time"
)

// submitHeld submits a job with a client of an outside server, which does not come to its end before finish: however long the
// test takes to capture the job, the client has its connection then.
func (c protected) submitHeld(t *testing.T, options, script string) string {
	t.Helper()
	return c.submitJob(t, options, "export UNTIL=go.$SLURM_JOB_ID\n"+script)
}

// startServers starts servers on ctl, outside of all jobs, and returns when they answer.
func (c protected) startServers(t *testing.T) {
	t.Helper()
	c.copyPrograms(t, "outside.py", "outside_server.py")
	c.runAsRoot(t, `mkdir -p /srv/http; cd /srv/http
		openssl req -x509 -newkey rsa:2048 -nodes -keyout key.pem -out cert.pem -days 2 -subj /CN=ctl 2>/dev/null
		setsid python3 /shared/home/alice/outside_server.py /srv/http >/srv/http/log 2>&1 </dev/null &
		redis-server --daemonize yes --protected-mode no --save '' --logfile /srv/http/redis.log >/dev/null
		install -d -o postgres /srv/pg; bin=$(echo /usr/lib/postgresql/*/bin)
		runuser -u postgres -- $bin/initdb -D /srv/pg -A trust >/dev/null
		echo 'host all all 10.77.0.0/16 trust' >> /srv/pg/pg_hba.conf
		runuser -u postgres -- $bin/pg_ctl -D /srv/pg -l /srv/pg/log -w -o "-h '*' -k /tmp" start >/dev/null
		until curl -sf http://localhost:8080/1 >/dev/null; do sleep 0.05; done`)
}

// redisLoop counts, and has a server keep the number. redis-cli connects again by itself, and the
// command that was about to be sent is lost, so the script asks again. A time limit of read that
// passes while the job moves, in the middle of an answer, leaves the beginning in said: the rest
// belongs to that.
const redisLoop = `coproc redis-cli -h ctl 2>/dev/null
	hear() { read -r -t 3 said <&${COPROC[0]} || { [ "$said" ] && read -r -t 3 rest <&${COPROC[0]} && said+=$rest; }; }
	ask() { until echo "$*" >&${COPROC[1]} && hear; do :; done; }
	for n in $(seq 0 99); do
		[ $n != 90 ] || until [ -e "$UNTIL" ]; do sleep 0.1; done
		ask SET n $n; ask GET n; echo OK $said; sleep 0.15
	done`

// psqlLoop counts by psql, which ends when its connection is lost, so the script starts it again.
const psqlLoop = `again=0
	connect() { coproc psql -XAtq -U postgres -h ctl 2>/dev/null; to=${COPROC[1]} from=${COPROC[0]}; }
	connect
	for n in $(seq 0 99); do
		[ $n != 90 ] || until [ -e "$UNTIL" ]; do sleep 0.1; done
		until echo "SELECT 2 * $n;" 2>/dev/null >&$to && read -r got <&$from; do wait; again=$((again + 1)); connect 2>/dev/null; done
		echo $n $got; sleep 0.15
	done 2>/dev/null
	echo again $again`

// TestOutside: real clients of servers outside of the job. A checkpoint in place disturbs no client; a move resets
// their connections. The clients notice the reset at once, and go on as after a failure of the network.
func TestOutside(t *testing.T) {
	t.Parallel()
	c := raiseProtected(t, "t-outside", "--nodes", "2", "--with-corpus")
	c.startServers(t)
	var doubled, redis strings.Builder
	for n := range 100 {
		fmt.Fprintln(&doubled, n, 2*n)
		fmt.Fprintln(&redis, "OK", n)
	}
	for name, test := range map[string]struct{ script, to, early, late, want string }{
		"http.client": {"exec python3 outside.py http ctl", ":8080", "8 16", "30 60", doubled.String() + "again 1"},
		"TLS":         {"exec python3 outside.py tls ctl", ":8443", "8 16", "30 60", doubled.String() + "again 1"},
		"requests":    {"exec python3 outside.py requests ctl", ":8080", "8 16", "30 60", doubled.String() + "again 0"},
		"step":        {"srun python3 outside.py http ctl", ":8080", "8 16", "30 60", doubled.String() + "again 1"},
		"redis-cli":   {redisLoop, ":6379", "OK 8", "OK 30", strings.TrimSpace(redis.String())},
		"psql":        {psqlLoop, ":5432", "8 16", "30 60", doubled.String() + "again 1"},
		"waits":       {"exec python3 outside.py waiting ctl", ":8080", "waits", "", "waits\nwaits\nserved\nagain 1"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			job := c.submitHeld(t, "--singularity", test.script)
			c.waitForLine(t, job, test.early)
			waitFor(t, 60*time.Second, func() (bool, string) {
				said := c.runOn(t, "ctl", "alice", "singctl", "show", job).out
				return strings.Contains(said, test.to+", which is outside of the job: a restore resets it"), said
			})
			c.checkCommand(t, "alice", "singctl checkpoint "+job, 0)
			if test.late != "" {
				c.waitForLine(t, job, test.late)
			}
			node := c.showColumn(t, job, "NodeList")
			c.runAsRoot(t, "scontrol requeue "+job)
			c.restartJob(t, job, node)
			c.endScript(t, job)
			if test.late != "" { // the job of the case "waits" ends too soon for singctl show
				waitFor(t, 60*time.Second, func() (bool, string) {
					said := c.runOn(t, "ctl", "alice", "singctl", "show", job).out
					return strings.Contains(said, "connections to 10.77.0.1"+test.to), said
				})
			}
			c.checkCompleted(t, job, test.want)
		})
	}
}
