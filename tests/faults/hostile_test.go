//go:build faults

// SPDX-FileCopyrightText: 2026 The singularity-slurm authors
// SPDX-License-Identifier: Apache-2.0

package faults

import (
	"context"
	"fmt"
	"os"
	"strings"
	"testing"
	"time"
)

// runAs runs a shell script on a host and returns the whole output, also of a script that fails.
func (c *cluster) runAs(t *testing.T, host, user, script string) string {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute)
	defer cancel()
	out, err := c.Exec(ctx, host, user, "bash", "-c", "exec 2>&1; cd /tmp; "+script+"\ntrue")
	if err != nil {
		t.Fatal(err)
	}
	return out
}

// checkRefused fails the test unless all that was tried was refused with these words.
func checkRefused(t *testing.T, said, word string) {
	t.Helper()
	if !strings.Contains(strings.ToLower(said), word) {
		t.Errorf("no %q in: %s", word, said)
	}
}

// countDescriptors counts the descriptors that the node's proxyd has open.
func (c *cluster) countDescriptors(t *testing.T, host string) int {
	t.Helper()
	pid, err := c.findProxyd(host)
	if err != nil {
		t.Fatal(err)
	}
	all, err := os.ReadDir(fmt.Sprintf("/proc/%d/fd", pid))
	if err != nil {
		t.Fatal(err)
	}
	return len(all)
}

// runBatch submits a script as alice, waits for its end, and returns the job and its log.
func (c *cluster) runBatch(t *testing.T, options, script string) (id, log string) {
	t.Helper()
	id = c.runAs(t, "ctl", "alice", fmt.Sprintf("cd; sbatch --parsable --singularity -w n1 --time=5 --output=%%j.log %s <<'SCRIPT'\n#!/bin/bash\n%s\nSCRIPT", options, script))
	j := &job{c: c, id: id}
	err := waitFor(t.Context(), 90*time.Second, func() (bool, string) {
		s, err := j.readState(t.Context())
		return err == nil && s.over(), fmt.Sprintf("job %q: %s %v", id, s, err)
	})
	if err != nil {
		t.Fatal(err)
	}
	b, _ := os.ReadFile(c.Shared("home/alice/" + id + ".log"))
	return id, strings.TrimSpace(string(b))
}

// TestHostile: a user of a node cannot use or change things that belong to root, to proxyd or to other users.
func TestHostile(t *testing.T) {
	c := raiseCluster(t, *prefix+"h")
	program, err := os.ReadFile("testdata/hostile.py")
	if err == nil {
		err = os.WriteFile(c.Shared("faults/hostile.py"), program, 0o644)
	}
	if err != nil {
		t.Fatal(err)
	}
	const tool = "python3 /shared/faults/hostile.py "
	job, err := c.submitJob(t.Context(), "hostile", false)
	if err != nil {
		t.Fatal(err)
	}
	made := c.runAs(t, "ctl", "alice", "singctl checkpoint "+job.id)
	if !strings.Contains(made, "captured") {
		t.Fatalf("singctl checkpoint did not capture the job: %v", made)
	}

	t.Run("the plugin's socket", func(t *testing.T) {
		for _, user := range []string{"alice", "bob"} {
			if said := c.runAs(t, "n1", user, tool+"spank"); said != "Permission denied" {
				t.Errorf("the plugin's socket said to %s: %s, want Permission denied", user, said)
			}
		}
	})
	t.Run("an srun from outside", func(t *testing.T) {
		for _, key := range []string{"", "s0-1"} {
			// The connection is closed before anything is read.
			checkRefused(t, c.runAs(t, "n1", "alice", tool+"srun "+key), "end of file")
		}
		if _, err := os.Stat(c.Shared("home/alice/escaped")); err == nil {
			t.Error("an srun from outside of a capsule was carried out")
		}
	})
	t.Run("garbage", func(t *testing.T) {
		before := c.countDescriptors(t, "n1")
		// How many packets leave before proxyd closes the connection of a process that is in no capsule is not certain.
		if said := c.runAs(t, "n1", "bob", tool+"garbage"); !strings.HasPrefix(said, "sent ") {
			t.Errorf("the tool did not send its garbage: %v", said)
		}
		err := waitFor(t.Context(), 20*time.Second, func() (bool, string) {
			now := c.countDescriptors(t, "n1")
			return now <= before+2, fmt.Sprintf("proxyd had %d descriptors, now %d", before, now)
		})
		if err != nil {
			t.Error(err)
		}
	})
	t.Run("every place taken", func(t *testing.T) {
		held := make(chan string)
		go func() { held <- c.runAs(t, "n1", "bob", tool+"idle 20") }()
		began := time.Now()
		_, log := c.runBatch(t, "", "sleep 1; srun echo inner")
		if !strings.Contains(log, "inner") {
			t.Errorf("the job's log does not have the line of srun: %s", log)
		}
		took := time.Since(began)
		if took > 15*time.Second {
			t.Error("another user's srun waited for a user who holds all places")
		}
		t.Logf("%s; a job with an srun of another user's took %s meanwhile", <-held, took.Round(time.Second))
	})
	t.Run("the store", func(t *testing.T) {
		for _, user := range []string{"alice", "bob"} {
			for _, script := range []string{
				"ls /shared/singularity/store", "cat /shared/singularity/store/manifests/*/*/*", "ls /shared/singularity/jobs", "ls /var/lib/singularity-slurm/capsules",
				"echo x >> /shared/singularity/jobs/" + job.id + ".json", "mv /shared/singularity/store /shared/singularity/old",
				"echo x > /shared/singularity/mine", "ln -s /etc/shadow /shared/singularity/store/tmp/x", "mv /shared/singularity /shared/gone", "cat /etc/singularity-slurm/*key*",
			} {
				if said := c.runAs(t, "n1", user, script); !strings.Contains(said, "Permission denied") && !strings.Contains(said, "Operation not permitted") && !strings.Contains(said, "No such file") {
					t.Errorf("%s ran %s, want an error of permission: %s", user, script, said)
				}
			}
		}
	})
	t.Run("another user's job", func(t *testing.T) {
		for _, script := range []string{
			"singctl show " + job.id, "singctl checkpoint " + job.id, "singctl checkpoints " + job.id,
			"singctl export " + c.Name + "/" + job.id + "/1 /tmp/stolen", "singctl verify " + c.Name + "/" + job.id + "/1", "singctl gc",
		} {
			said := c.runAs(t, "ctl", "bob", script+"; echo code $?; ls /tmp/stolen")
			if strings.Contains(said, "code 0") || !strings.Contains(said, "No such file") {
				t.Errorf("bob ran %s, want a failure and no /tmp/stolen: %s", script, said)
			}
		}
		if n := c.runAs(t, "ctl", "alice", "singctl checkpoints "+job.id+" | grep -c "+c.Name); n != "1" {
			t.Errorf("the job has %s checkpoints, want 1", n)
		}
	})
	t.Run("options", func(t *testing.T) {
		for _, option := range []string{
			"--singularity-exclude=relative", "--singularity-interval=-1", "--singularity-interval=9999999999999", "--singularity-on-failure='restart;id'",
			"--singularity-on-failure=../../etc", "--singularity-gpus=0-", "--singularity=interval=1,interval=2", "--singularity=nonsense=1", "--singularity-exclude=/" + strings.Repeat("x", 70000),
		} {
			said := c.runAs(t, "ctl", "alice", "cd; sbatch --singularity "+option+" --wrap=true; echo code $?")
			if strings.Contains(said, "code 0") || !strings.Contains(said, "singularity") {
				t.Errorf("sbatch with %.60s, want an error of singularity: %.300s", option, said)
			}
		}
	})
	t.Run("keys of steps", func(t *testing.T) {
		for _, key := range []string{"../../../etc", "batch", "s0-1", "a/b", strings.Repeat("k", 60), "$(id)", "x y"} {
			_, log := c.runBatch(t, "", "export SINGULARITY_SLURM_STEP='"+key+"'; srun echo inner; echo rc $?; ls -d /var/lib/singularity-slurm/sruns/* 2>&1")
			if strings.Contains(log, "inner") == strings.Contains(log, "singularity: ") {
				t.Errorf("srun with key %s, want either its output or an error of singularity: %s", key, log)
			}
		}
	})
	t.Run("links in a capsule", func(t *testing.T) { hostileLinks(t, c) })

	// After all of that the first job is unchanged.
	if err := os.WriteFile(c.Shared(job.folder+"/stop"), nil, 0o644); err != nil {
		t.Fatal(err)
	}
	err = waitFor(t.Context(), 60*time.Second, func() (bool, string) {
		s, err := job.readState(t.Context())
		return err == nil && s.name == "COMPLETED", fmt.Sprint(s, err)
	})
	if err == nil {
		_, err = job.checkOutput(t.Context(), 0, false)
	}
	if err != nil {
		t.Error(err)
	}
}

// hostileLinks: proxyd packs and unpacks a capsule's /tmp and list of files as root, and
// puts files back; the user may have replaced the files by links.
func hostileLinks(t *testing.T, c *cluster) {
	before := c.runAs(t, "n1", "root", "stat -c '%i %s %Y %a %U' /etc/shadow /etc/passwd; md5sum /etc/shadow /etc/passwd")
	c.runAs(t, "ctl", "bob", "cd; chmod 755 .; echo bobs > bobs; chmod 600 bobs")
	id := c.runAs(t, "ctl", "alice", `cd; rm -rf links; mkdir links; sbatch --parsable --singularity -w n1 --time=5 --output=links/log <<'SCRIPT'
#!/bin/bash
cd /tmp; ln -s /etc/shadow a; ln -s / b; mkdir c; ln -s ../../../../../../etc c/d; mkfifo p; ln -s a e
cd "$HOME/links"; echo mine > first; echo mine > second; exec 5>>first 6>>second
list=$(dirname "$SINGULARITY_SLURM_FILES"); ls "$list" > listed 2>&1
( cd "$list" && for f in *; do printf '\377\0garbage\n/etc/shadow\n../../../../etc/passwd\n' >> "$f"; done; ln -s /etc/shadow other ) 2>> listed
touch ready
until [ -e go ]; do sleep 0.1; done
cat /tmp/a /tmp/e /tmp/c/d/shadow 2>&1 | sort -u; ls -l /tmp
SCRIPT`)
	ctx := t.Context()
	j := &job{c: c, id: id}
	there := func(name string) func() (bool, string) {
		return func() (bool, string) {
			_, err := os.Stat(c.Shared("home/alice/links/" + name))
			log, _ := os.ReadFile(c.Shared("home/alice/links/log"))
			return err == nil, fmt.Sprintf("%v, log %s", err, log)
		}
	}
	if err := waitFor(ctx, 60*time.Second, there("ready")); err != nil {
		t.Fatal(err)
	}
	if err := c.Scontrol(ctx, "requeue", id); err != nil {
		t.Fatal(err)
	}
	if err := j.waitUntilRequeued(ctx); err != nil {
		t.Fatal(err)
	}
	// The names of the files that the restore puts back are links to other users' files now.
	c.runAs(t, "ctl", "alice", "cd links 2>/dev/null || cd ~/links; rm first second; ln -s /etc/passwd first; ln -s /shared/home/bob/bobs second; touch go")
	if err := c.Scontrol(ctx, "update", "JobId="+id, "StartTime=now"); err != nil {
		t.Fatal(err)
	}
	err := waitFor(ctx, 60*time.Second, func() (bool, string) {
		s, err := j.readState(ctx)
		return err == nil && (s.over() || s.held()), fmt.Sprint(s, err)
	})
	if err != nil {
		t.Fatal(err)
	}
	s, _ := j.readState(ctx)
	log, _ := os.ReadFile(c.Shared("home/alice/links/log"))
	t.Logf("job: %s\n%s", s, log)
	if s.held() {
		_ = c.Scontrol(ctx, "update", "JobId="+id, "Requeue=0")
		_, _ = c.Exec(ctx, "ctl", "root", "scancel", id)
	}
	if strings.Contains(string(log), "root:") {
		t.Error("the job's log has a line of a file that only root may read")
	}
	if after := c.runAs(t, "n1", "root", "stat -c '%i %s %Y %a %U' /etc/shadow /etc/passwd; md5sum /etc/shadow /etc/passwd"); after != before {
		t.Errorf("the node's /etc/shadow and /etc/passwd have changed: %s, before %s", after, before)
	}
	if got := c.runAs(t, "ctl", "root", "cat /shared/home/bob/bobs; stat -c '%U %a' /shared/home/bob/bobs"); got != "bobs\nbob 600" {
		t.Errorf("bob's file has changed: %s", got)
	}
}
