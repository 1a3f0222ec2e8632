//go:build cluster

// SPDX-FileCopyrightText: 2026 The singularity-slurm authors
// SPDX-License-Identifier: Apache-2.0

package cluster

import (
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"
)

// seenSrun stands in the place of the real srun: it writes down its user, groups, limits, OOM score and cgroup.
const seenSrun = `#!/bin/bash
case "$*" in --help|--version) exec /usr/bin/srun.real "$@";; esac
printf "%s; %s; %s; %s; %s\n" "$(id -u)" "$(id -G)" "$(ulimit -n)" "$(cat /proc/self/oom_score_adj)" "$(paste -sd, /proc/self/cgroup)" >>/shared/home/alice/seen
`

// TestReusedPID: processes of a job of alice's call srun.sock and end at any moment of the answer, while root and bob start
// processes that get the PIDs of the callers. Each srun that is started has the groups, limits and cgroup of alice's job.
func TestReusedPID(t *testing.T) {
	t.Parallel()
	c := raiseProtected(t, "t-reused", "--nodes", "1")
	c.copyPrograms(t, "reused_caller.py", "reused_pids.py")
	if err := os.WriteFile(c.homePath("srun"), []byte(seenSrun), 0o755); err != nil {
		t.Fatal(err)
	}
	c.runOn(t, "n1", "", "bash", "-euc", "mv /usr/bin/srun /usr/bin/srun.real; cp /shared/home/alice/srun /usr/bin/srun").mustSucceed(t)
	job := c.submitJob(t, "--singularity", "cd; ulimit -n 1234; id -G; exec python3 reused_caller.py")
	c.waitForLine(t, job, "called")
	groups, _, _ := strings.Cut(c.jobLog(job), "\n")
	honest := c.seenSruns(t)[0]
	if want := "1001; " + groups + "; 1234; "; !strings.HasPrefix(honest, want) {
		t.Fatalf("an srun of a caller that stays has %q, want %q", honest, want)
	}
	c.runOn(t, "n1", "", "bash", "-euc", "cd /shared/home/alice; nohup python3 reused_pids.py stop </dev/null >/run/pids 2>&1 & ").mustSucceed(t)

	const endings, sruns = 20, 200
	log := filepath.Join("/var/lib/minicluster", c.name, "logs", "n1", "proxyd.log")
	var ended []string
	waitFor(t, 5*time.Minute, func() (bool, string) {
		b, err := os.ReadFile(log)
		if err != nil {
			t.Fatal(err)
		}
		ended = nil
		for _, m := range regexp.MustCompile(`msg="srun refused".* pid=(\d+) .*the caller has ended`).FindAllStringSubmatch(string(b), -1) {
			ended = append(ended, m[1])
		}
		started := len(c.seenSruns(t))
		return len(ended) >= endings && started >= sruns, fmt.Sprintf("%d callers had ended, %d sruns were started", len(ended), started)
	})
	c.runScript(t, "touch ~/stop")
	c.waitForLine(t, job, "over")
	var pids string
	waitFor(t, 60*time.Second, func() (bool, string) {
		pids = " " + strings.TrimSpace(c.runOn(t, "n1", "", "cat", "/run/pids").mustSucceed(t)) + " "
		return pids != "  ", "the processes with the callers' PIDs have not ended"
	})
	reused := 0
	for _, pid := range ended {
		if strings.Contains(pids, " "+pid+" ") {
			reused++
		}
	}
	if reused == 0 {
		t.Errorf("no PID of a caller was one of root's or bob's: callers %q, theirs %s", ended, pids)
	}
	all := c.seenSruns(t)
	times := map[string]int{}
	for _, srun := range all {
		times[srun]++
	}
	for srun, n := range times {
		if srun != honest {
			t.Errorf("%d sruns have %q, want %q", n, srun, honest)
		}
	}
	t.Logf("%d sruns, as %q; %d callers had ended, and %d of their PIDs were root's or bob's, too", len(all), honest, len(ended), reused)
}

// seenSruns returns the lines that sruns have written, one for each srun.
func (c protected) seenSruns(t *testing.T) []string {
	t.Helper()
	b, err := os.ReadFile(c.homePath("seen"))
	if err != nil {
		t.Fatal(err)
	}
	return strings.Split(strings.TrimSpace(string(b)), "\n")
}
