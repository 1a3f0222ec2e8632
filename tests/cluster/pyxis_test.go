//go:build cluster

// SPDX-FileCopyrightText: 2026 The singularity-slurm authors
// SPDX-License-Identifier: Apache-2.0

package cluster

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// installPyxisStandIn puts testdata/pyxis_stand_in.c, compiled for the cluster's Slurm, before our line of plugstack.conf.
func installPyxisStandIn(t *testing.T, c protected) {
	t.Helper()
	headers, err := filepath.Glob("/var/cache/minicluster/" + *suite + "-*/usr/include/slurm/spank.h")
	if err != nil || len(headers) == 0 {
		t.Fatal("no spank.h of the cluster's Slurm: ", err)
	}
	include := t.TempDir()
	if err := os.Symlink(filepath.Dir(headers[0]), filepath.Join(include, "slurm")); err != nil {
		t.Fatal(err)
	}
	plugin := filepath.Join("/var/lib/minicluster", c.name, "shared/spank_pyxis.so")
	cc := exec.Command("gcc", "-O", "-Wall", "-Wextra", "-Werror", "-shared", "-fPIC", "-isystem", include, "-o", plugin, filepath.Join("testdata", "pyxis_stand_in.c"))
	if out, err := cc.CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	for _, host := range []string{"ctl", "n1", "n2"} {
		c.runOn(t, host, "", "sed", "-i", "1i required /shared/spank_pyxis.so", "/etc/slurm/plugstack.conf").mustSucceed(t)
	}
}

// imageScript makes the stand-in's image: a root with a system's /usr, which is mounted.
const imageScript = `cd; mkdir -p image/etc image/usr image/data image/proc image/dev image/sys image/tmp image/run image/shared data
for d in bin lib lib64 sbin; do ln -s usr/$d image/$d; done
echo ID=image > image/etc/os-release; touch image/etc/hosts`

// TestPyxis: programs that pyxis starts in a container go on in it on another node. The plugin is a stand-in for pyxis,
// which makes the same namespaces at the same time.
func TestPyxis(t *testing.T) {
	t.Parallel()
	c := raiseProtected(t, "t-pyxis", "--nodes", "2")
	installPyxisStandIn(t, c)
	program, err := os.ReadFile(filepath.Join("testdata", "container.py"))
	if err == nil {
		err = os.WriteFile(c.homePath("container.py"), program, 0o644)
	}
	if err != nil {
		t.Fatal(err)
	}
	c.runScript(t, imageScript)
	t.Cleanup(func() { // after all of the tests below
		for _, node := range []string{"n1", "n2"} {
			log, err := os.ReadFile(filepath.Join("/var/lib/minicluster", c.name, "logs", node, "proxyd.log"))
			if err != nil || strings.Contains(string(log), "not recorded any more") || strings.Contains(string(log), "file not put back") {
				t.Errorf("%s: changes of files are not recorded, or not put back: %v", node, err)
			}
		}
	})
	const (
		mounted = "--container-image=$HOME/image --container-mounts=/usr:/usr:ro,/shared:/shared,$HOME/data:/data "
		run     = "python3 /shared/home/alice/container.py "
	)

	t.Run("step", func(t *testing.T) {
		t.Parallel()
		job := c.submitJob(t, "--singularity --nodes 2 --ntasks 4", "srun "+mounted+"--container-workdir=/data "+run+"step; echo script $?")
		for task := range 4 {
			c.waitForLine(t, job, fmt.Sprint(task, "-step 10"))
		}
		c.runAsRoot(t, "scontrol requeue "+job)
		c.restartJob(t, job, "")
		if s := c.waitForEnd(t, job); !strings.Contains(s, "COMPLETED") {
			t.Errorf("the job ended as %s, want COMPLETED", s)
		}
		var want []string
		for task := range 4 {
			want = append(want, inContainer(fmt.Sprint(task, "-step"))...)
		}
		want = append(want, "script 0")
		got := strings.Split(c.jobLog(job), "\n")
		slices.Sort(want)
		slices.Sort(got)
		if !slices.Equal(got, want) {
			t.Errorf("the job's log is not as expected:\n%s", c.jobLog(job))
		}
	})
	t.Run("batch", func(t *testing.T) {
		t.Parallel()
		job := c.submitJob(t, "--singularity --nodes 1 --container-workdir=/data "+mounted, `echo "$0" $OF_IMAGE ${LANG:-no}; `+run+"batch; echo script $?")
		c.waitForLine(t, job, "0-batch 10")
		node := c.showColumn(t, job, "NodeList")
		c.runAsRoot(t, "scontrol requeue "+job)
		c.restartJob(t, job, node)
		want := strings.Join(slices.Concat([]string{"/tmp/slurm/startup yes no"}, inContainer("0-batch"), []string{"script 0"}), "\n")
		c.checkCompleted(t, job, want)
	})
	t.Run("refused", func(t *testing.T) {
		t.Parallel()
		job := c.submitJob(t, "--singularity --nodes 1", "srun --container-writable "+mounted+"true; echo step $?; srun --container-unshare=uts "+mounted+"true; echo step $?")
		c.waitForEnd(t, job)
		got := c.jobLog(job)
		for _, want := range []string{"its root can be written, and what is written there would not go along", "singularity: --container-unshare", "step 125"} {
			if !strings.Contains(got, want) {
				t.Errorf("no %q in the job's log:\n%s", want, got)
			}
		}
	})
	t.Run("status", func(t *testing.T) {
		t.Parallel()
		job := c.submitJob(t, "--singularity --nodes 1", "srun "+mounted+"sh -c 'exit 3'; echo step $?; echo input | srun "+mounted+"cat; srun cat /etc/os-release | grep -c ID=image")
		c.waitForEnd(t, job)
		if got := c.jobLog(job); !strings.Contains(got, "step 3\ninput\n0") {
			t.Errorf("the job's log is not as expected:\n%s", got)
		}
	})
	t.Run("unprotected", func(t *testing.T) {
		t.Parallel()
		job := c.submitJob(t, "", "srun "+mounted+"cat /etc/os-release")
		if s := c.waitForEnd(t, job); !strings.Contains(s, "COMPLETED") || c.jobLog(job) != "ID=image" {
			t.Errorf("the stand-in itself: %s\n%s", s, c.jobLog(job))
		}
	})
}
