//go:build cluster

// SPDX-FileCopyrightText: 2026 The singularity-slurm authors
// SPDX-License-Identifier: Apache-2.0

package cluster

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// configureStaging configures a staging folder on all nodes, and a rate that makes an upload last.
func (c protected) configureStaging(t *testing.T, folder, rate string) {
	t.Helper()
	for _, n := range []string{"n1", "n2", "n3"} {
		c.runOn(t, n, "", "bash", "-euc", fmt.Sprintf(
			`mkdir -p -m 700 %[1]s; printf 'shared: /shared/singularity\nstaging:\n  folder: %[1]s\n  rate: %[2]s\n  patience: 1m\n' > /etc/singularity-slurm/proxyd.yaml`, folder, rate)).mustSucceed(t)
		runMinicluster(t, "restart", "--name", c.name, n, "proxyd").mustSucceed(t)
	}
}

// onShared tells whether a path in our part of the shared folder matches a pattern.
func (c protected) onShared(t *testing.T, pattern string) bool {
	t.Helper()
	found, err := filepath.Glob(filepath.Join("/var/lib/minicluster", c.name, "shared/singularity", pattern))
	if err != nil {
		t.Fatal(err)
	}
	return len(found) > 0
}

// requeueAndLeave requeues a job and waits until its nodes are free, which its upload outlasts.
func (c protected) requeueAndLeave(t *testing.T, job, checkpoint string, nodes ...string) {
	t.Helper()
	began := time.Now()
	c.runAsRoot(t, "scontrol requeue "+job)
	waitFor(t, 30*time.Second, func() (bool, string) {
		s := c.runAsRoot(t, "sinfo --noheader --Node --format=%T --nodes="+strings.Join(nodes, ",")+" | sort -u")
		return s == "idle", strings.Join(nodes, ",") + ": " + s + "\n" + c.runAsRoot(t, "squeue --all; squeue --all --states=completing; scontrol show node "+nodes[0])
	})
	t.Logf("job %s: its nodes were free after %s", job, time.Since(began).Round(100*time.Millisecond))
	if !c.onShared(t, "jobs/"+job+".upload") || c.onShared(t, "store/manifests/*/"+job+"/"+checkpoint) {
		t.Fatalf("job %s: checkpoint %s is in the store when its nodes are free: nothing to be seen here", job, checkpoint)
	}
	if list := c.runAsRoot(t, "singctl checkpoints "+job); !strings.Contains(list, "uploading") {
		t.Errorf("singctl checkpoints: %s", list)
	}
}

// restartElsewhere has a job that was requeued start at once on other nodes.
func (c protected) restartElsewhere(t *testing.T, job, exclude string) {
	t.Helper()
	c.runAsRoot(t, "scontrol update ReqNodeList= JobId="+job)
	c.restartJob(t, job, exclude)
}

// waitForComment waits until the job's comment has a text.
func (c protected) waitForComment(t *testing.T, job, text string) {
	t.Helper()
	waitFor(t, 90*time.Second, func() (bool, string) {
		s := c.showColumn(t, job, "Comment")
		return strings.Contains(s, text), fmt.Sprintf("job %s: comment %q, want %q", job, s, text)
	})
}

// slowLoop is the loop of a job that outlasts an upload.
func slowLoop(job string) string { return strings.ReplaceAll(job, "sleep 0.15", "sleep 0.5") }

// heavy is count with 5 MB of random data in memory, which do not compress; their hash is checked at the end.
const heavy = `blob=$(head -c 5000000 /dev/urandom | base64 -w0); before=$(md5sum <<< "$blob")
` + count + `
[[ $(md5sum <<< "$blob") = "$before" ]] && echo same || echo different`

// TestStaging: checkpoints are written to their nodes, which are free long before the checkpoints are in the store;
// each loss by a death of a node meanwhile is reported.
func TestStaging(t *testing.T) {
	t.Parallel()
	c := raiseProtected(t, "t-staging", "--nodes", "3")
	c.configureStaging(t, "/var/lib/staging", "1M") // on the nodes' disks: a power cut does not delete the stage

	t.Run("proxyd killed", func(t *testing.T) {
		job := c.submitJob(t, "--singularity -w n1", heavy)
		c.waitForLine(t, job, "8")
		c.requeueAndLeave(t, job, "1", "n1")
		c.runOn(t, "n1", "", "pkill", "-KILL", "-x", "proxyd").mustSucceed(t)
		c.restartElsewhere(t, job, "n1")
		c.waitForComment(t, job, "waits for checkpoint 1")
		c.waitForEnd(t, job)
		if got := c.jobLog(job); got != undisturbedOutput("n1")+"\nsame" {
			t.Errorf("the job's log is not as expected:\n%s", got)
		}
	})
	t.Run("two nodes, one fails", func(t *testing.T) {
		job := c.submitJob(t, "--singularity -N2 -w n1,n2", `
			srun bash -c 'blob=$(head -c 4000000 /dev/urandom | base64 -w0); before=$(md5sum <<< "$blob")
				for i in $(seq 40); do echo $i >> staged.$SLURM_PROCID; sleep 0.15; done
				[[ $(md5sum <<< "$blob") = "$before" ]]'
			echo rc $?`)
		file := func(r int) string {
			b, _ := os.ReadFile(filepath.Join("/var/lib/minicluster", c.name, "shared/home/alice", fmt.Sprintf("staged.%d", r)))
			return string(b)
		}
		waitFor(t, 60*time.Second, func() (bool, string) {
			return strings.Contains(file(0), "\n8\n") && strings.Contains(file(1), "\n8\n"), file(0) + file(1)
		})
		c.requeueAndLeave(t, job, "1", "n1", "n2")
		runMinicluster(t, "fail", "n2", "--name", c.name).mustSucceed(t)
		c.runAsRoot(t, "scontrol update NodeName=n2 State=DOWN Reason=test")
		runMinicluster(t, "heal", "n2", "--name", c.name).mustSucceed(t)
		c.restartElsewhere(t, job, "")
		c.waitForEnd(t, job)
		if got := c.jobLog(job); got != "rc 0" {
			t.Errorf("the job's log is not as expected:\n%s", got)
		}
		var want strings.Builder
		for i := 1; i <= 40; i++ {
			fmt.Fprintln(&want, i)
		}
		for r := range 2 {
			if got := file(r); got != want.String() {
				t.Errorf("staged.%d:\n%s", r, got)
			}
		}
	})
	t.Run("the job runs on", func(t *testing.T) {
		job := c.submitJob(t, "--singularity -w n3", slowLoop(heavy))
		c.waitForLine(t, job, "8")
		began := time.Now()
		said := c.runAsRoot(t, "singctl checkpoint "+job+" 2>&1")
		took := time.Since(began)
		if n := strings.Count(c.jobLog(job), "\n"); took < 4*time.Second || n < 11 { // the upload takes 5 s at least, and each line half a second
			t.Errorf("the job stood at line %d after %s of checkpoint: %s", n, took, said)
		}
		if !c.onShared(t, "store/manifests/*/"+job+"/1") {
			t.Error("the checkpoint is not in the store")
		}
		c.waitForEnd(t, job)
		if got := c.jobLog(job); got != undisturbedOutput("n3")+"\nsame" {
			t.Errorf("the job's log is not as expected:\n%s", got)
		}
	})
	for _, v := range []struct{ name, mount, logged string }{
		{"too little room", "size=40m", "no space in the stage"},
		{"no room after all", "nr_inodes=5", "the stage is full"}, // bytes are free, which are reserved, but no more files can be made
	} {
		t.Run(v.name, func(t *testing.T) {
			c.runOn(t, "n3", "", "bash", "-euc", "mount -t tmpfs -o mode=0700,"+v.mount+" none /var/lib/staging").mustSucceed(t)
			runMinicluster(t, "restart", "--name", c.name, "n3", "proxyd").mustSucceed(t)
			job := c.submitJob(t, "--singularity -w n3", "head -c 50000000 /dev/urandom > /tmp/large; before=$(md5sum < /tmp/large); "+count+"; [[ $(md5sum < /tmp/large) = $before ]] && echo same")
			c.waitForLine(t, job, "8")
			c.runAsRoot(t, "scontrol requeue "+job)
			c.restartElsewhere(t, job, "n3")
			c.waitForEnd(t, job)
			if got := c.jobLog(job); got != undisturbedOutput("n3")+"\nsame" {
				t.Errorf("the job's log is not as expected:\n%s", got)
			}
			log, _ := os.ReadFile(filepath.Join("/var/lib/minicluster", c.name, "logs/n3/proxyd.log"))
			if !strings.Contains(string(log), v.logged) {
				t.Errorf("proxyd's log does not say %q", v.logged)
			}
		})
	}

	c.configureStaging(t, "/var/lib/memory", "1M")
	inMemory := func(t *testing.T) { // a power cut deletes the stage
		c.runOn(t, "n1", "", "mount", "-t", "tmpfs", "-o", "mode=0700", "none", "/var/lib/memory").mustSucceed(t)
		runMinicluster(t, "restart", "--name", c.name, "n1", "proxyd").mustSucceed(t)
	}
	t.Run("lost", func(t *testing.T) {
		inMemory(t)
		job := c.submitJob(t, "--singularity -w n1", strings.Replace(slowLoop(heavy), "echo $i;", // with more that is new
			"echo $i; echo $i >> lost; [ $i != 30 ] || more=$(head -c 5000000 /dev/urandom | base64 -w0);", 1))
		c.waitForLine(t, job, "1")
		c.runAsRoot(t, "singctl checkpoint "+job)
		c.waitForLine(t, job, "31")
		c.requeueAndLeave(t, job, "2", "n1")
		runMinicluster(t, "fail", "n1", "--name", c.name).mustSucceed(t)
		c.restartElsewhere(t, job, "n1")
		c.waitForComment(t, job, "waits for checkpoint 2")
		runMinicluster(t, "heal", "n1", "--name", c.name).mustSucceed(t)
		c.waitForEnd(t, job)
		if got := c.jobLog(job); !strings.HasSuffix(got, "\nsum 1830 on n1\nsame") {
			t.Errorf("the job's log is not as expected:\n%s", got)
		}
		file, _ := os.ReadFile(filepath.Join("/var/lib/minicluster", c.name, "shared/home/alice/lost"))
		if got := string(file) + "sum 1830 on n1"; got != undisturbedOutput("n1") {
			t.Errorf("its file is not that of checkpoint 1, gone on with:\n%s", file)
		}
		if s := c.showColumn(t, job, "Comment"); !strings.Contains(s, "restored from checkpoint 1") || !strings.Contains(s, "checkpoint 2 is lost: node n1") {
			t.Errorf("comment %q", s)
		}
	})
	t.Run("lost, and the only one", func(t *testing.T) {
		inMemory(t)
		job := c.submitJob(t, "--singularity -w n1", heavy)
		c.waitForLine(t, job, "8")
		c.requeueAndLeave(t, job, "1", "n1")
		runMinicluster(t, "fail", "n1", "--name", c.name).mustSucceed(t)
		runMinicluster(t, "heal", "n1", "--name", c.name).mustSucceed(t)
		c.restartElsewhere(t, job, "n1")
		c.waitForComment(t, job, "held: checkpoint 1: it was lost")
		waitFor(t, 30*time.Second, func() (bool, string) {
			s := c.showColumn(t, job, "State") + " " + c.showColumn(t, job, "Reason")
			return strings.HasPrefix(s, "PENDING") || strings.HasPrefix(s, "REQUEUE_HOLD"), s
		})
		c.restartJob(t, job, "") // by a person, after reading the comment
		c.waitForEnd(t, job)
		if got := c.jobLog(job); !strings.HasSuffix(got, "\n"+undisturbedOutput("n1")+"\nsame") {
			t.Errorf("the job's log is not as expected:\n%s", got)
		}
	})
}
