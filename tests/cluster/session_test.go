//go:build cluster

// SPDX-FileCopyrightText: 2026 The singularity-slurm authors
// SPDX-License-Identifier: Apache-2.0

package cluster

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"regexp"
	"strings"
	"testing"
	"time"
)

// attachAndType attaches to a session as alice, types lines, waits until the terminal shows want, for a minute at most,
// detaches, and returns the terminal's text.
func (c protected) attachAndType(t *testing.T, job, want string, lines ...string) string {
	t.Helper()
	typed := ""
	for _, line := range lines {
		typed += fmt.Sprintf("echo '%s'; ", line)
	}
	// The end of the input detaches. The answer to the typed lines is shown after a while.
	return c.runScript(t, fmt.Sprintf(`cd; rm -f shown-%[3]s
		{ %[1]s timeout 60 sh -c 'until grep -q "%[2]s" shown-%[3]s 2>/dev/null; do sleep 0.1; done'; } |
		timeout 90 singctl session attach %[3]s > shown-%[3]s; cat shown-%[3]s`, typed, want, job))
}

// TestSession: a shell in a session keeps its variables and programs when the job is requeued, and
// is reached again from the login node.
func TestSession(t *testing.T) {
	t.Parallel()
	c := raiseProtected(t, "t-session", "--nodes", "2")
	t.Run("shell", func(t *testing.T) {
		t.Parallel()
		job := c.runScript(t, "cd; SHELL=/bin/bash singctl session start --name work --sbatch=--ntasks=1")
		c.attachAndType(t, job, "value=41", "keep=41; sleep 1000 & pid=$!", "echo value=$keep")
		if said := c.runOn(t, "ctl", "alice", "singctl", "session", "list").mustSucceed(t); !strings.Contains(said, job) || !strings.Contains(said, "work") {
			t.Errorf("list:\n%s", said)
		}
		c.checkCommand(t, "alice", "singctl checkpoint "+job, 0)
		node := c.showColumn(t, job, "NodeList")
		c.runAsRoot(t, "scontrol requeue "+job)
		c.restartJob(t, job, node)
		shown := c.attachAndType(t, job, "again=42 0 on", "kill -0 $pid; echo again=$((keep + 1)) $? on $(hostname)")
		if !strings.Contains(shown, "value=41") { // the terminal's text from before the move is shown again
			t.Errorf("the terminal:\n%s", shown)
		}
		if now := c.showColumn(t, job, "NodeList"); now == node {
			t.Errorf("the job is on %s as before", now)
		}
		ended := c.runOn(t, "ctl", "alice", "bash", "-c", fmt.Sprintf(
			"timeout 60 singctl session attach %s < <(echo 'exit 3'; exec sleep 60 2>/dev/null)", job))
		if ended.code != 3 || !strings.Contains(ended.err, "session "+job+" has ended: FAILED, exit status 3") {
			t.Errorf("attach: %d\n%s", ended.code, ended.err)
		}
		if s := c.waitForEnd(t, job); !strings.Contains(s, "FAILED") || !strings.Contains(s, "3:0") && !strings.Contains(s, "768") {
			t.Errorf("the job: %s", s)
		}
		if _, err := os.Stat(c.homePath(".singularity-slurm/sessions/" + job + ".json")); !errors.Is(err, fs.ErrNotExist) {
			t.Errorf("the record of a session that has ended: %v", err)
		}
	})
	t.Run("scontrol runs", func(t *testing.T) { // scontrol is a file of the node, and only capsules have it at that path
		t.Parallel()
		job := c.submitJob(t, "--singularity", `(until [ -e go-$SLURM_JOB_ID ]; do sleep 0.2; done; echo 'show hostnames a[1-2]') | scontrol`)
		waitFor(t, 3*time.Minute, func() (bool, string) {
			seen := c.runOn(t, "ctl", "", "bash", "-c", "squeue -h -j "+job+" -o %T").out
			if !strings.Contains(seen, "RUNNING") {
				return false, seen
			}
			node := c.showColumn(t, job, "NodeList")
			seen = c.runOn(t, node, "", "bash", "-c", "for p in $(pgrep -x scontrol); do readlink /proc/$p/exe; done").out
			return strings.Contains(seen, "/run/singularity-slurm/scontrol"), seen
		})
		node := c.showColumn(t, job, "NodeList")
		c.checkCommand(t, "alice", "singctl checkpoint "+job, 0)
		c.runAsRoot(t, "scontrol requeue "+job)
		c.restartJob(t, job, node)
		c.runScript(t, "cd; touch go-"+job)
		if s := c.waitForEnd(t, job); !strings.Contains(s, "COMPLETED") {
			t.Errorf("the job ended as %s, want COMPLETED", s)
		}
		if log := c.jobLog(job); !strings.Contains(log, "a1\na2") {
			t.Errorf("its log:\n%s", log)
		}
	})
	t.Run("requeue typed", func(t *testing.T) {
		t.Parallel()
		job := c.runScript(t, "cd; SHELL=/bin/bash singctl session start --name typed --sbatch=--ntasks=1")
		c.attachAndType(t, job, "value=41", "keep=41", "echo value=$keep")
		node := c.showColumn(t, job, "NodeList")
		c.runOn(t, "ctl", "alice", "bash", "-c", fmt.Sprintf(
			"timeout 60 singctl session attach %[1]s < <(echo 'scontrol requeue $SLURM_JOB_ID'; while [ \"$(squeue -h -j %[1]s -o %%T)\" = RUNNING ]; do sleep 0.2; done)", job))
		c.restartJob(t, job, node)
		if list := c.runScript(t, "singctl session list"); !strings.Contains(list, "typed") {
			t.Errorf("list of a session that was requeued:\n%s", list)
		}
		c.attachAndType(t, job, "again=42", "echo again=$((keep + 1))")
		ended := c.runOn(t, "ctl", "alice", "bash", "-c", fmt.Sprintf(
			"timeout 60 singctl session attach %s < <(echo 'exit 3'; exec sleep 60 2>/dev/null)", job))
		if ended.code != 3 || !strings.Contains(ended.err, "session "+job+" has ended: FAILED, exit status 3") {
			t.Errorf("attach after a requeue that was typed in the session: %d\n%s", ended.code, ended.err)
		}
		// attach returns as soon as the job is FAILED, before a proxyd that wants another run asks for one. Then there is
		// no event of the job's end.
		c.waitForLog(t, node, `msg="a person asks Slurm for a requeue, on a terminal of the job" job=`+job)
		waitFor(t, 60*time.Second, func() (bool, string) {
			s := c.runOn(t, "ctl", "alice", "singctl", "show", job).out
			return regexp.MustCompile(`(?m)^.* ended( .*)?$`).MatchString(s), s
		})
		if s := c.showColumn(t, job, "State"); s != "FAILED" {
			t.Errorf("the job: %s", s)
		}
	})
	t.Run("no command", func(t *testing.T) {
		t.Parallel()
		said := c.runOn(t, "ctl", "alice", "singctl", "session", "start", "nonsense")
		job := strings.TrimSpace(said.out)
		if !strings.Contains(said.err, "nonsense is not on this host") {
			t.Errorf("start:\n%s%s", said.out, said.err)
		}
		ended := c.runOn(t, "ctl", "alice", "bash", "-c", "timeout 60 singctl session attach "+job+" < <(exec sleep 60 2>/dev/null)")
		if ended.code != 127 || !strings.Contains(ended.err, `"nonsense": executable file not found`) {
			t.Errorf("attach: %d\n%s", ended.code, ended.err)
		}
	})
	t.Run("follows", func(t *testing.T) {
		t.Parallel()
		job := c.runScript(t, "cd; singctl session start -- sh -c 'n=0; while read x; do n=$((n+1)); echo line $n; done'")
		out := c.homePath("follows")
		inCluster := "/shared/home/alice/follows"
		done, onTerminal := make(chan struct{}), make(chan struct{})
		go func() {
			defer close(onTerminal)
			c.runOn(t, "ctl", "alice", "bash", "-c", fmt.Sprintf(
				`timeout 150 script -qfec "singctl session attach %[2]s" %[1]s.terminal < <(exec sleep 150 2>/dev/null) > %[1]s.script`, inCluster, job))
		}()
		go func() {
			defer close(done)
			c.runOn(t, "ctl", "alice", "bash", "-c", fmt.Sprintf(`{ echo a; until grep -q "^line 1" %[1]s; do sleep 0.1; done
				until test -e %[1]s.moved; do sleep 0.1; done; echo b; until grep -q "^line 2" %[1]s; do sleep 0.1; done; } |
				timeout 150 singctl session attach %[2]s > %[1]s 2> %[1]s.said`, inCluster, job))
		}()
		waitFor(t, 60*time.Second, func() (bool, string) {
			b, _ := os.ReadFile(out)
			return strings.Contains(string(b), "line 1"), string(b)
		})
		waitFor(t, 60*time.Second, func() (bool, string) {
			b, _ := os.ReadFile(out + ".terminal")
			return strings.Contains(string(b), "line 1"), string(b)
		})
		node := c.showColumn(t, job, "NodeList")
		requeued := time.Now()
		c.runAsRoot(t, "scontrol requeue "+job)
		waitFor(t, 60*time.Second, func() (bool, string) {
			s := c.showColumn(t, job, "State")
			return s == "PENDING", s
		})
		// Slurm waits for the steps of the terminals for as long as KillWait, 30 s, unless they end.
		if took := time.Since(requeued); took >= 30*time.Second {
			t.Errorf("the job left its node after %v: the terminals kept it there", took)
		}
		c.restartJob(t, job, node)
		waitFor(t, 60*time.Second, func() (bool, string) {
			s := c.runOn(t, "ctl", "alice", "singctl", "show", job).out
			return strings.Contains(s, "restored"), s
		})
		if err := os.WriteFile(out+".moved", nil, 0o644); err != nil {
			t.Fatal(err)
		}
		<-done
		b, _ := os.ReadFile(out)
		if !strings.Contains(string(b), "line 2") {
			said, _ := os.ReadFile(out + ".said")
			t.Errorf("attached:\n%s\n%s", b, said)
		}
		waitFor(t, 60*time.Second, func() (bool, string) {
			b, _ := os.ReadFile(out + ".terminal")
			return strings.Contains(string(b), "line 2"), string(b)
		})
		c.checkCommand(t, "alice", "singctl session stop "+job, 0)
		c.waitForEnd(t, job)
		<-onTerminal
		for _, file := range []string{".said", ".terminal"} {
			b, _ := os.ReadFile(out + file)
			if strings.Count(string(b), "session "+job+" is being moved") != 1 || strings.Contains(string(b), "srun") ||
				strings.Contains(string(b), "CANCELLED AT") {
				t.Errorf("file %s, want one line about the move and none of srun:\n%q", file, b)
			}
		}
	})
	t.Run("waits", func(t *testing.T) {
		t.Parallel()
		job := c.runScript(t, "cd; singctl session start --name later --sbatch=--hold")
		list := c.runScript(t, "singctl session list")
		if want := regexp.MustCompile(`(?m)^` + job + ` +later +PENDING +- +JobHeldUser$`); !want.MatchString(list) {
			t.Errorf("list:\n%s", list)
		}
		said := c.homePath("waits")
		done := make(chan result)
		go func() {
			done <- c.runOn(t, "ctl", "alice", "bash", "-c", fmt.Sprintf(
				"timeout 60 singctl session attach %s < <(exec sleep 60 2>/dev/null) 2> /shared/home/alice/waits", job))
		}()
		waitFor(t, 30*time.Second, func() (bool, string) {
			b, _ := os.ReadFile(said)
			return strings.Contains(string(b), "session "+job+": PENDING (JobHeldUser); waiting"), string(b)
		})
		c.checkCommand(t, "alice", "singctl session stop "+job, 0)
		attached := <-done
		b, _ := os.ReadFile(said)
		if attached.code != 1 || !strings.Contains(string(b), "session "+job+" has ended: CANCELLED, exit status 1") {
			t.Errorf("attach: %d\n%s", attached.code, b)
		}
		if list := c.runScript(t, "singctl session list"); strings.Contains(list, "later") {
			t.Errorf("list of a session that was stopped:\n%s", list)
		}
		plain := c.runScript(t, "cd; sbatch --parsable --hold --output=%j.log --wrap true")
		c.checkCommand(t, "alice", "singctl session stop "+plain, 2, "job "+plain+" is no session of yours")
		c.runScript(t, "scancel "+plain)
	})
	t.Run("strangers", func(t *testing.T) {
		t.Parallel()
		job := c.runScript(t, "cd; singctl session start")
		record := c.homePath(".singularity-slurm/sessions/" + job + ".json")
		waitFor(t, 60*time.Second, func() (bool, string) {
			_, err := os.Stat(record)
			return err == nil, fmt.Sprint(err)
		})
		b, err := os.ReadFile(record)
		if err != nil {
			t.Fatal(err)
		}
		if st, err := os.Stat(record); err != nil || st.Mode().Perm() != 0o600 {
			t.Errorf("record %s has mode %v, want 0600; %v", record, st.Mode(), err)
		}
		address, _, _ := strings.Cut(strings.SplitAfter(string(b), `"Address":"`)[1], `"`)
		host, port, _ := strings.Cut(address, ":")
		node := c.showColumn(t, job, "NodeList")
		said := c.runOn(t, node, "bob", "bash", "-c", fmt.Sprintf(
			`exec 3<>/dev/tcp/%s/%s; printf '%%064d\n\0\0\003id\n' 0 >&3; timeout 5 cat <&3; echo closed $?`, host, port)).out
		// The connection is closed, or reset if bytes are unread; cat times out with 124.
		if said := strings.TrimSpace(said); said != "closed 0" && said != "closed 1" {
			t.Errorf("without the token: %q", said)
		}
		c.checkCommand(t, "alice", "singctl session stop "+job, 0)
		c.waitForEnd(t, job)
	})
}
