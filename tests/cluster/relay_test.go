//go:build cluster

// SPDX-FileCopyrightText: 2026 The singularity-slurm authors
// SPDX-License-Identifier: Apache-2.0

package cluster

import (
	"crypto/sha256"
	"fmt"
	"strings"
	"testing"
	"time"
)

// raiseWithRelay raises a cluster with servers on ctl, and with a relay there that n1 and n2 know.
func raiseWithRelay(t *testing.T, name string) protected {
	t.Helper()
	c := raiseProtected(t, name, "--nodes", "2", "--with-corpus")
	c.startServers(t)
	c.runAsRoot(t, `printf 'allow: [10.77.0.1, 10.77.0.99]\nclients: {ports: 7000-7099}\n' >/etc/singularity-slurm/relay.yaml`)
	c.startRelay(t)
	for _, n := range []string{"n1", "n2"} {
		c.runOn(t, n, "", "sh", "-c", "echo 'relay: ctl:6833' >> /etc/singularity-slurm/proxyd.yaml").mustSucceed(t)
		runMinicluster(t, "restart", "--name", c.name, n, "proxyd").mustSucceed(t)
	}
	return c
}

// startRelay starts the relay on ctl, and returns when the relay listens.
func (c protected) startRelay(t *testing.T) {
	t.Helper()
	c.runAsRoot(t, `setsid proxyd relay >>/var/log/relay.log 2>&1 </dev/null &
		until grep -q msg=ready /var/log/relay.log; do sleep 0.05; done`)
	t.Cleanup(func() {
		if t.Failed() {
			t.Log(c.runOn(t, "ctl", "", "cat", "/var/log/relay.log").out)
		}
	})
}

// Programs that would show a lost connection, because they do not connect again. Before number 90 they wait for finish.
const (
	redisOnce = `coproc redis-cli -h ctl 2>&1
	for n in $(seq 0 99); do
		[ $n != 90 ] || until [ -e "$UNTIL" ]; do sleep 0.1; done
		echo "SET n $n" >&${COPROC[1]}; read -r ok <&${COPROC[0]}
		echo "GET n" >&${COPROC[1]}; read -r said <&${COPROC[0]}; echo $ok $said; sleep 0.15
	done`
	psqlOnce = `coproc psql -XAtq -U postgres -h ctl 2>&1
	for n in $(seq 0 99); do
		[ $n != 90 ] || until [ -e "$UNTIL" ]; do sleep 0.1; done
		echo "SELECT 2 * $n;" >&${COPROC[1]}; read -r got <&${COPROC[0]}; echo $n $got; sleep 0.15
	done`
	curlOnce = `curl -sSk --rate 6/s -w ' %{num_connects}\n' 'https://ctl:8443/[0-89]' "https://ctl:8443/90?until=$UNTIL" 'https://ctl:8443/[91-99]' | awk '{ print NR - 1, $1; again += $2; fflush() } END { print "again", again - 1 }'`
)

// TestRelay: real clients of servers outside of the job, and the relay. A checkpoint in place, a requeue and a move
// disturb no client: clients see only a pause.
func TestRelay(t *testing.T) {
	t.Parallel()
	c := raiseWithRelay(t, "t-relay")
	var doubled, redis strings.Builder
	for n := range 100 {
		fmt.Fprintln(&doubled, n, 2*n)
		fmt.Fprintln(&redis, "OK", n)
	}
	for name, test := range map[string]struct{ script, to, early, late, want string }{
		"http.client": {"exec python3 outside.py http ctl", ":8080", "8 16", "30 60", doubled.String() + "again 0"},
		"TLS":         {"exec python3 outside.py tls ctl", ":8443", "8 16", "30 60", doubled.String() + "again 0"},
		"requests":    {"exec python3 outside.py requests ctl", ":8080", "8 16", "30 60", doubled.String() + "again 0"},
		"curl":        {curlOnce, ":8443", "8 16", "30 60", doubled.String() + "again 0"},
		"step":        {"srun python3 outside.py http ctl", ":8080", "8 16", "30 60", doubled.String() + "again 0"},
		"redis-cli":   {redisOnce, ":6379", "OK 8", "OK 30", strings.TrimSpace(redis.String())},
		"psql":        {psqlOnce, ":5432", "8 16", "30 60", strings.TrimSpace(doubled.String())},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			job := c.submitHeld(t, "--singularity-outside=relay", test.script)
			c.waitForLine(t, job, test.early)
			waitFor(t, 60*time.Second, func() (bool, string) {
				said := c.runOn(t, "ctl", "alice", "singctl", "show", job).out
				return strings.Contains(said, test.to+", which is outside of the job: the relay, ctl:6833, keeps it"), said
			})
			c.checkCommand(t, "alice", "singctl checkpoint "+job, 0)
			c.waitForLine(t, job, test.late)
			node := c.showColumn(t, job, "NodeList")
			c.runAsRoot(t, "scontrol requeue "+job)
			c.restartJob(t, job, node)
			c.endScript(t, job)
			if s := c.waitForEnd(t, job); !strings.Contains(s, "COMPLETED") {
				t.Errorf("the job ended as %s, want COMPLETED", s)
			}
			if got := c.jobLog(job); got != test.want {
				t.Errorf("log:\n%s\nshow:\n%s", got, c.runOn(t, "ctl", "alice", "singctl", "show", job).out)
			}
		})
	}
}

// TestRelayTransfer: an upload and a download, as of object stores, in the midst of which the job is requeued: the server stops
// half way until then.
func TestRelayTransfer(t *testing.T) {
	t.Parallel()
	c := raiseWithRelay(t, "t-transfer")
	const size = 80_000_000
	var text strings.Builder
	for n := range size / 8 {
		fmt.Fprintf(&text, "%07d\n", n)
	}
	want := fmt.Sprintf("%x", sha256.Sum256([]byte(text.String())))
	for name, script := range map[string]string{
		"upload":   `seq -f %07.0f 0 9999999 >big; curl -sSk --limit-rate 6M -T big "https://ctl:8443/put?until=$UNTIL" & `,
		"download": `curl -sSk --limit-rate 6M "https://ctl:8443/bytes/80000000?until=$UNTIL" | sha256sum | cut -c 1-64 & `,
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			job := c.submitHeld(t, "--singularity-outside=relay", script+"sleep 3; echo midst; wait $!")
			c.waitForLine(t, job, "midst")
			node := c.showColumn(t, job, "NodeList")
			c.runAsRoot(t, "scontrol requeue "+job)
			c.restartJob(t, job, node)
			c.endScript(t, job)
			if s := c.waitForEnd(t, job); !strings.Contains(s, "COMPLETED") {
				t.Errorf("the job ended as %s, want COMPLETED", s)
			}
			if got := c.jobLog(job); got != "midst\n"+want {
				t.Errorf("log:\n%s\nwant %s\nshow:\n%s", got, want, c.runOn(t, "ctl", "alice", "singctl", "show", job).out)
			}
		})
	}
}

// TestRelayLost: connections that the relay cannot keep are reset and named: if the other side has received data since
// the checkpoint, and after a new start of the relay. A site without a relay refuses such jobs.
func TestRelayLost(t *testing.T) {
	t.Parallel()
	c := raiseWithRelay(t, "t-lost")
	var doubled strings.Builder
	for n := range 100 {
		fmt.Fprintln(&doubled, n, 2*n)
	}
	named := func(t *testing.T, job, reason string) {
		t.Helper()
		waitFor(t, 60*time.Second, func() (bool, string) {
			said := c.runOn(t, "ctl", "alice", "singctl", "show", job).out
			return strings.Contains(said, "connections to 10.77.0.1:8080") && strings.Contains(said, reason), said
		})
		if s := c.waitForEnd(t, job); !strings.Contains(s, "COMPLETED") {
			t.Errorf("the job ended as %s, want COMPLETED", s)
		}
	}
	t.Run("older checkpoint", func(t *testing.T) {
		job := c.submitHeld(t, "--singularity-outside=relay", "exec python3 outside.py http ctl")
		c.waitForLine(t, job, "8 16")
		c.checkCommand(t, "alice", "singctl checkpoint "+job, 0)
		c.waitForLine(t, job, "30 60")
		node := c.showColumn(t, job, "NodeList")
		runMinicluster(t, "fail", "--name", c.name, node).mustSucceed(t)
		c.runAsRoot(t, "scontrol update nodename="+node+" state=down reason=test")
		c.restartJob(t, job, node)
		c.endScript(t, job)
		named(t, job, "already received bytes")
		if got := c.jobLog(job); !strings.HasSuffix(got, "again 1") {
			t.Errorf("the job's log is not as expected:\n%s", got)
		}
		runMinicluster(t, "heal", "--name", c.name, node).mustSucceed(t)
	})
	t.Run("new relay", func(t *testing.T) {
		job := c.submitHeld(t, "--singularity-outside=relay", "exec python3 outside.py http ctl")
		c.waitForLine(t, job, "8 16")
		c.runAsRoot(t, "pkill -x -f 'proxyd relay'; : >/var/log/relay.log")
		c.startRelay(t)
		c.endScript(t, job)
		c.checkCompleted(t, job, doubled.String()+"again 1")
	})
	t.Run("new forwarder", func(t *testing.T) {
		job := c.submitHeld(t, "--singularity-outside=relay", "exec python3 outside.py http ctl")
		c.waitForLine(t, job, "8 16")
		c.runOn(t, c.showColumn(t, job, "NodeList"), "", "pkill", "-KILL", "-f", "^proxyd forward").mustSucceed(t)
		c.endScript(t, job)
		c.checkCompleted(t, job, doubled.String()+"again 1")
	})
	t.Run("stopped forwarder", func(t *testing.T) {
		for name, capture := range map[string]func(job, node string){
			"checkpoint": func(job, _ string) { c.checkCommand(t, "alice", "singctl checkpoint "+job, 0) },
			"requeue": func(job, node string) {
				c.runAsRoot(t, "scontrol requeue "+job)
				c.restartJob(t, job, node)
			},
		} {
			t.Run(name, func(t *testing.T) {
				job := c.submitHeld(t, "--singularity-outside=relay", "exec python3 outside.py http ctl")
				c.waitForLine(t, job, "8 16")
				node := c.showColumn(t, job, "NodeList")
				c.runOn(t, node, "alice", "pkill", "-STOP", "-f", "^proxyd forward").mustSucceed(t)
				capture(job, node)
				c.endScript(t, job)
				c.checkCompleted(t, job, doubled.String()+"again 1")
				said := c.runOn(t, "ctl", "alice", "singctl", "show", job).out
				if !strings.Contains(said, "a signal had stopped their forwarder") {
					t.Errorf("singctl show does not say that a signal had stopped the forwarder: %v", said)
				}
			})
		}
	})
	t.Run("no relay", func(t *testing.T) {
		for _, n := range []string{"n1", "n2"} {
			c.runOn(t, n, "", "sed", "-i", "/^relay:/d", "/etc/singularity-slurm/proxyd.yaml").mustSucceed(t)
			runMinicluster(t, "restart", "--name", c.name, n, "proxyd").mustSucceed(t)
		}
		job := c.submitJob(t, "--singularity-outside=relay", "echo runs")
		if s := c.waitForEnd(t, job); !strings.Contains(s, "FAILED") {
			t.Errorf("the job: %s", s)
		}
		if got := c.jobLog(job); !strings.Contains(got, "the site has no relay") || strings.Contains(got, "runs\n") {
			t.Errorf("the job's log is not as expected:\n%s", got)
		}
	})
}

// TestRelayConnects: connect() ends as without the relay. While connect() waits, the job moves.
func TestRelayConnects(t *testing.T) {
	t.Parallel()
	c := raiseWithRelay(t, "t-connects")
	c.putFile(t, "connects.py")
	// 10.77.0.99 is no host, and the relay may not connect to 10.77.0.2.
	t.Run("errors", func(t *testing.T) {
		t.Parallel()
		job := c.submitJob(t, "--singularity-outside=relay", "exec python3 connects.py ctl:1 10.77.0.99:2 10.77.0.2:3 ctl:8080")
		if s := c.waitForEnd(t, job); !strings.Contains(s, "COMPLETED") {
			t.Errorf("the job ended as %s, want COMPLETED", s)
		}
		const want = "1 waits: ECONNREFUSED\n1 EINPROGRESS then ECONNREFUSED\n2 waits: EHOSTUNREACH\n2 EINPROGRESS then EHOSTUNREACH\n" +
			"3 waits: EHOSTUNREACH\n3 EINPROGRESS then EHOSTUNREACH\n8080 waits: connected\n8080 EINPROGRESS then connected"
		if got := c.jobLog(job); got != want {
			t.Errorf("log:\n%s\nwant\n%s", got, want)
		}
	})
	for port, want := range map[string]string{
		"9998": "begins\n9998 waits: ECONNREFUSED\n9998 EINPROGRESS then ECONNREFUSED",
		"9999": "begins\n9999 EINPROGRESS then ECONNREFUSED",
	} {
		script := "echo begins; exec python3 connects.py ctl:" + port
		if port == "9999" {
			script += " without waiting"
		}
		t.Run("moves/"+port, func(t *testing.T) {
			t.Parallel()
			c.runAsRoot(t, fmt.Sprintf("nft 'table ip hole%[1]s { chain in { type filter hook input priority 0; tcp dport %[1]s drop; }; }'", port))
			job := c.submitJob(t, "--singularity-outside=relay", script)
			c.waitForLine(t, job, "begins")
			node := c.showColumn(t, job, "NodeList")
			connecting := "is connecting to 10.77.0.1:" + port + ", which is outside of the job: it asks again when the job resumes"
			waitFor(t, 30*time.Second, func() (bool, string) {
				said := c.runOn(t, "ctl", "alice", "singctl", "show", job).out
				return strings.Contains(said, connecting), said
			})
			c.runAsRoot(t, "scontrol requeue "+job)
			c.restartJob(t, job, node)
			waitFor(t, 60*time.Second, func() (bool, string) {
				said := c.runOn(t, "ctl", "alice", "singctl", "show", job).out
				return strings.Contains(said, "restored") && strings.Contains(said, connecting), said
			})
			c.runAsRoot(t, "nft delete table ip hole"+port)
			if s := c.waitForEnd(t, job); !strings.Contains(s, "COMPLETED") {
				t.Errorf("the job ended as %s, want COMPLETED", s)
			}
			if got := c.jobLog(job); got != want {
				t.Errorf("log:\n%s\nwant\n%s\nshow:\n%s", got, want, c.runOn(t, "ctl", "alice", "singctl", "show", job).out)
			}
		})
	}
}

// TestRelayAway: a preemption, a time limit, a job on two nodes, and a daemon that starts again while connect() waits. No
// client connects a second time.
func TestRelayAway(t *testing.T) {
	t.Parallel()
	c := raiseWithRelay(t, "t-away")
	c.putFile(t, "connects.py")
	var doubled strings.Builder
	for n := range 100 {
		fmt.Fprintln(&doubled, n, 2*n)
	}
	want := doubled.String() + "again 0"
	client := "python3 outside.py http ctl"
	resumed := func(t *testing.T, job string) {
		t.Helper()
		c.restartJob(t, job, "")
		c.endScript(t, job)
		if s := c.waitForEnd(t, job); !strings.Contains(s, "COMPLETED") {
			t.Errorf("the job ended as %s, want COMPLETED", s)
		}
	}
	t.Run("preempted", func(t *testing.T) {
		job := c.submitHeld(t, "--singularity-outside=relay -w n2 --exclusive --qos=basic", "exec "+client)
		c.waitForLine(t, job, "8 16")
		other := c.submitJob(t, "-w n2 --exclusive --qos=premium", "sleep 1")
		c.waitForEnd(t, other)
		resumed(t, job)
		if got := c.jobLog(job); got != want {
			t.Errorf("the job's log is not as expected:\n%s", got)
		}
	})
	t.Run("two nodes", func(t *testing.T) {
		job := c.submitHeld(t, "--singularity-outside=relay -N2 -n2", "srun --output=%j.%t.log "+client)
		for _, task := range []string{".0", ".1"} {
			c.waitForLine(t, job+task, "8 16")
		}
		c.runAsRoot(t, "scontrol requeue "+job)
		resumed(t, job)
		for _, task := range []string{".0", ".1"} {
			if got := c.jobLog(job + task); got != want {
				t.Errorf("task %s:\n%s", task, got)
			}
		}
	})
	t.Run("time limit", func(t *testing.T) {
		t.Parallel()
		job := c.submitJob(t, "--singularity-outside=relay --time=1", "PACE=1.05 exec "+client)
		waitFor(t, 150*time.Second, func() (bool, string) {
			s := c.showColumn(t, job, "RestartCnt")
			return s == "1", "restarts: " + s + ", " + c.showColumn(t, job, "State")
		})
		resumed(t, job)
		if got := c.jobLog(job); got != want {
			t.Errorf("the job's log is not as expected:\n%s", got)
		}
	})
	t.Run("new daemon", func(t *testing.T) {
		t.Parallel()
		c.runAsRoot(t, "nft 'table ip hole { chain in { type filter hook input priority 0; tcp dport 9997 drop; }; }'")
		job := c.submitJob(t, "--singularity-outside=relay -w n1", "python3 connects.py ctl:9997 without waiting; exec "+client)
		waitFor(t, 30*time.Second, func() (bool, string) {
			said := c.runOn(t, "ctl", "alice", "singctl", "show", job).out
			return strings.Contains(said, "is connecting to 10.77.0.1:9997"), said
		})
		runMinicluster(t, "restart", "--name", c.name, "n1", "proxyd").mustSucceed(t)
		c.runAsRoot(t, "nft delete table ip hole")
		c.checkCompleted(t, job, "9997 EINPROGRESS then ECONNREFUSED\n"+want)
	})
	t.Run("doctor", func(t *testing.T) {
		t.Parallel()
		c.checkCommand(t, "alice", "singctl doctor --node n1", 0, `^ +ok +relay +ctl:6833 takes connections$`)
	})
}

// redisClient is a client outside, of a server in a job, that would show a lost connection.
const redisClient = `coproc redis-cli -h %s -p %s 2>&1
	for n in $(seq 0 99); do
		echo "INCR n" >&${COPROC[1]}; read -r said <&${COPROC[0]}; echo $said; sleep 0.2
	done >/tmp/counts; cat /tmp/counts`

// TestRelayClients: clients outside of servers in a job stay connected while the job is requeued and moves. A client that
// comes while the job is away waits for the job.
func TestRelayClients(t *testing.T) {
	t.Parallel()
	c := raiseWithRelay(t, "t-clients")
	const size = 8_000_000 * 8
	var text strings.Builder
	for n := range size / 8 {
		fmt.Fprintf(&text, "%07d\n", n)
	}
	want := fmt.Sprintf("%x", sha256.Sum256([]byte(text.String())))
	job := c.submitJob(t, "--singularity-listen=8888,6379", `mkdir -p served; cd served; seq -f %07.0f 0 7999999 >big; echo here >small
		redis-server --port 6379 --protected-mode no --save '' --logfile ../redis.log --daemonize yes
		python3 -m http.server 8888 >../http.log 2>&1 &
		until (: </dev/tcp/$(hostname)/8888 && : </dev/tcp/$(hostname)/6379) 2>/dev/null; do sleep 0.1; done
		echo $SINGULARITY_SLURM_REACHABLE; echo serves; wait`)
	c.waitForLine(t, job, "serves")
	told, _, _ := strings.Cut(c.jobLog(job), "\n")
	at := map[string]string{}
	for pair := range strings.SplitSeq(told, ",") {
		port, address, _ := strings.Cut(pair, "=")
		at[port] = address
		said := c.runOn(t, "ctl", "alice", "singctl", "show", job).out
		if line := "port " + port + " is reachable at " + address + "\n"; !strings.Contains(said, line) {
			t.Errorf("no %q in\n%s", line, said)
		}
	}
	host, port, ok := strings.Cut(at["6379"], ":")
	if !ok || host != "ctl" || at["8888"] == "" {
		t.Fatalf("the job was told %q", told)
	}
	client := func(script string) <-chan string {
		said := make(chan string, 1)
		go func() {
			r := c.runOn(t, "ctl", "alice", "bash", "-c", script)
			said <- strings.TrimSpace(r.out + r.err)
		}()
		return said
	}
	counts := client(fmt.Sprintf(redisClient, host, port))
	loads := client(fmt.Sprintf("curl -sS --limit-rate 4M http://%s/big | tee /tmp/loads | sha256sum | cut -c 1-64", at["8888"]))
	waitFor(t, 30*time.Second, func() (bool, string) {
		said := c.runAsRoot(t, `echo $(cat /tmp/counts 2>/dev/null | wc -l) $(cat /tmp/loads 2>/dev/null | wc -c)`)
		var n, bytes int
		_, _ = fmt.Sscan(said, &n, &bytes)
		return n >= 5 && bytes >= 1_000_000, said
	})
	node := c.showColumn(t, job, "NodeList")
	c.runAsRoot(t, "scontrol requeue "+job)
	waitFor(t, 90*time.Second, func() (bool, string) {
		s := c.showColumn(t, job, "State")
		return s == "PENDING" || s == "REQUEUE_HOLD", s
	})
	waits := client(fmt.Sprintf("curl -sS http://%s/small", at["8888"]))
	c.restartJob(t, job, node)
	for what, one := range map[string]struct {
		said <-chan string
		want string
	}{
		"a client that came while the job was away": {waits, "here"},
		"a download": {loads, want},
		"redis-cli":  {counts, strings.TrimSpace(c.runAsRoot(t, "seq 1 100"))},
	} {
		select {
		case said := <-one.said:
			if said != one.want {
				t.Errorf("%s: %q, want %q", what, said, one.want)
			}
		case <-time.After(120 * time.Second):
			t.Errorf("%s has not ended", what)
		}
	}
	if now := c.showColumn(t, job, "NodeList"); now == node {
		t.Errorf("the job is on %s again", node)
	}
	said := c.runOn(t, "ctl", "alice", "singctl", "show", job).out
	if t.Failed() || !strings.Contains(said, "reachable") {
		t.Errorf("show:\n%s\nlog:\n%s", said, c.runAsRoot(t, "tail -n 20 /shared/home/alice/http.log /shared/home/alice/redis.log"))
	}
	c.runAsRoot(t, "scancel "+job)
	c.waitForEnd(t, job)
	waitFor(t, 30*time.Second, func() (bool, string) {
		return c.runOn(t, "ctl", "alice", "curl", "-sS", "http://"+at["8888"]+"/small").code != 0, "the relay listens for a job that is over"
	})
}
