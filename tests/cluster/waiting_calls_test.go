//go:build cluster

// SPDX-FileCopyrightText: 2026 The singularity-slurm authors
// SPDX-License-Identifier: Apache-2.0

package cluster

import (
	"fmt"
	"regexp"
	"strconv"
	"strings"
	"testing"
	"time"
)

// sleepers makes system calls that wait, each in a process of its own, as C programs make them: no library repeats a
// call if no handler of a signal has run. Each process prints the call's result, errno, and the seconds that the call
// took by the process's own clock. The endless poll ends by the byte that comes when time.sleep has ended; a semaphore
// that is waited for until a time gives -1 and ETIMEDOUT, which the script turns into 0.
const sleepers = `cat >waits.py <<'END'
import ctypes, os, select, struct, time
libc = ctypes.CDLL(None, use_errno=True)
LAST = %d
def words(*w): return ctypes.create_string_buffer(struct.pack("%%dq" %% len(w), *w))
def call(name, *a):
    ctypes.set_errno(0)
    return getattr(libc, name)(*a), ctypes.get_errno()
epoll = select.epoll()
semaphore = ctypes.create_string_buffer(32)
reader, writer = os.pipe()
kinds = {
    "nanosleep": lambda: call("nanosleep", words(LAST, 0), None),
    "nanosleep-left": lambda: call("nanosleep", words(LAST, 0), words(0, 0)),
    "usleep": lambda: call("usleep", LAST * 1000000),
    "poll": lambda: call("poll", None, 0, LAST * 1000),
    "select": lambda: call("select", 0, None, None, None, words(LAST, 0)),
    "epoll_wait": lambda: call("epoll_wait", epoll.fileno(), words(0, 0), 1, LAST * 1000),
    "time.sleep": lambda: (time.sleep(LAST), os.write(writer, b"x") - 1),
    "endless poll": lambda: (call("poll", ctypes.create_string_buffer(struct.pack("ihh", reader, 1, 0)), 1, -1)[0] - 1, ctypes.get_errno()),
    "sem_clockwait": lambda: [n + d for n, d in zip(call("sem_clockwait", semaphore, 1, words(int(time.monotonic()) + LAST + 1, 0)), (1, -110))],
}
for name, f in kinds.items():
    if os.fork() == 0:
        begin = time.monotonic()
        print(name, *f(), "%%.2f" %% (time.monotonic() - begin), flush=True)
        os._exit(0)
for _ in kinds: os.wait()
END
echo ready
python3 waits.py &
begin=$EPOCHSECONDS
sleep %d
echo sleep $? 0 $((EPOCHSECONDS - begin))
wait
echo end`

// captureWaits submits sleepers with calls that wait for some seconds, makes checkpoints while the calls wait, and
// requeues the job. It returns for how many seconds the calls had waited at the last checkpoint, and false if the
// machine was so slow that the calls may have ended before.
func (c protected) captureWaits(t *testing.T, seconds int) (job string, waited float64, inTime bool) {
	t.Helper()
	job = c.submitJob(t, "--singularity", fmt.Sprintf(sleepers, seconds, seconds))
	c.waitForLine(t, job, "ready")
	ready := time.Now()
	for range 4 {
		c.runOn(t, "ctl", "alice", "singctl", "checkpoint", job).mustSucceed(t)
	}
	log := c.jobLog(job)
	if time.Since(ready).Seconds() > float64(seconds)/2 {
		c.runAsRoot(t, "scancel "+job)
		c.waitForEnd(t, job)
		return "", 0, false
	}
	if log != "ready" {
		t.Fatalf("a call has ended early:\n%s", log)
	}
	node := c.showColumn(t, job, "NodeList")
	waited = time.Since(ready).Seconds()
	c.runAsRoot(t, "scontrol requeue "+job)
	c.restartJob(t, job, node)
	return job, waited, true
}

// TestWaitingCalls: checkpoints in place and a requeue change neither the results of waiting system calls, nor the time
// that they wait by the program's clock.
func TestWaitingCalls(t *testing.T) {
	last := 40
	c := raiseProtected(t, "waits", "--nodes", "2")
	job, waited, inTime := c.captureWaits(t, last)
	for !inTime && last < 320 {
		last *= 2
		job, waited, inTime = c.captureWaits(t, last)
	}
	if !inTime {
		t.Fatalf("four checkpoints take longer than %d s", last/2)
	}
	waitFor(t, 10*time.Minute, func() (bool, string) {
		log := c.jobLog(job)
		return strings.HasSuffix(log, "\nend"), log
	})
	log := c.jobLog(job)
	t.Logf("job %s:\n%s", job, log)
	for _, name := range []string{"nanosleep", "nanosleep-left", "usleep", "poll", "epoll_wait", "select", "time.sleep", "endless poll", "sem_clockwait", "sleep"} {
		line := regexp.MustCompile(`(?m)^` + regexp.QuoteMeta(name) + ` (0|None) 0 ([0-9.]+)$`).FindStringSubmatch(log)
		if line == nil {
			t.Errorf("%s did not return 0", name)
			continue
		}
		took, err := strconv.ParseFloat(line[2], 64)
		if err != nil {
			t.Fatal(err)
		}
		switch {
		case took < float64(last)-0.01 && name != "endless poll": // which ends after time.sleep has, but can begin later than time.sleep
			t.Errorf("%s has waited for %v s, want %d", name, took, last)
		case name == "sleep": // measured by the time of day, which the requeue does not stop
		case took > float64(last)+max(15, waited): // a call that begins anew takes longer by the time that the call had waited, and been frozen
			t.Errorf("%s has waited for %v s, want some %d", name, took, last)
		}
	}
}
