//go:build cluster

// SPDX-FileCopyrightText: 2026 The singularity-slurm authors
// SPDX-License-Identifier: Apache-2.0

package cluster

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// ociConf is a site's configuration of containers: here a runtime of a few lines, for jobs without us.
const ociConf = `cat > /etc/slurm/oci-state <<'X'
#!/bin/sh
echo '{"status":"stopped"}'
X
cat > /etc/slurm/oci-run <<'X'
#!/usr/bin/python3
import json, os, sys
config = json.load(open(sys.argv[1] + "/config.json"))
os.execvp("unshare", ["unshare", "--map-root-user", "--mount", "sh", "-c", """mount --rbind /usr "$0/usr" && exec chroot "$0" "$@" """,
    config["root"]["path"], *config["process"]["args"]])
X
chmod 755 /etc/slurm/oci-state /etc/slurm/oci-run
cat > /etc/slurm/oci.conf <<'X'
RunTimeQuery="/etc/slurm/oci-state"
RunTimeKill="/bin/true"
RunTimeDelete="/bin/true"
RunTimeRun="exec /etc/slurm/oci-run %b"
X`

// bundleScript makes a bundle: a root of the user's with a system's /usr, as in an image.
const bundleScript = `cd; mkdir -p bundle/rootfs/etc bundle/rootfs/usr bundle/rootfs/data bundle/rootfs/proc bundle/rootfs/dev bundle/rootfs/sys bundle/rootfs/tmp
cd bundle; for d in bin lib lib64 sbin; do ln -s usr/$d rootfs/$d; done
echo ID=image > rootfs/etc/os-release
cat > config.json <<'X'
{"ociVersion": "1.0.0", "root": {"path": "rootfs"},
 "process": {"user": {"uid": 0, "gid": 0}, "args": ["sh"], "env": ["PATH=/usr/bin", "OF_IMAGE=yes"], "cwd": "/data"},
 "mounts": [
  {"destination": "/proc", "type": "proc", "source": "proc"},
  {"destination": "/dev", "type": "tmpfs", "source": "tmpfs"},
  {"destination": "/dev/shm", "type": "tmpfs", "source": "shm"},
  {"destination": "/tmp", "type": "tmpfs", "source": "tmpfs"},
  {"destination": "/run", "type": "tmpfs", "source": "tmpfs"},
  {"destination": "/usr", "type": "bind", "source": "/usr", "options": ["rbind", "ro"]},
  {"destination": "/shared", "type": "bind", "source": "/shared", "options": ["rbind"]}],
 "linux": {"namespaces": [{"type": "pid"}, {"type": "mount"}]}}
X`

func inContainer(name string) []string {
	lines := []string{name + " in ID=image at /data"}
	for n := range 60 {
		lines = append(lines, fmt.Sprint(name, " ", n))
	}
	return append(lines, name+" wrote [60, 60, 60] NoNewPrivs 1")
}

// TestContainers: Slurm's --container in protected jobs. Programs go on in their container on
// another node, with the files that they wrote into the container, and have no more rights than their user.
func TestContainers(t *testing.T) {
	t.Parallel()
	c := raiseProtected(t, "t-containers", "--nodes", "2")
	for _, host := range []string{"ctl", "n1", "n2"} {
		c.runOn(t, host, "", "bash", "-euc", ociConf).mustSucceed(t)
	}
	program, err := os.ReadFile(filepath.Join("testdata", "container.py"))
	if err == nil {
		err = os.WriteFile(c.homePath("container.py"), program, 0o644)
	}
	if err != nil {
		t.Fatal(err)
	}
	c.runScript(t, bundleScript+"\ncd; cp -r bundle removed")
	const run = "python3 /shared/home/alice/container.py "

	t.Run("batch", func(t *testing.T) {
		t.Parallel()
		job := c.submitJob(t, "--singularity --container $HOME/bundle", `echo "$0" $OF_IMAGE; `+run+"batch; echo script $?")
		c.waitForLine(t, job, "0-batch 5")
		c.checkCommand(t, "alice", "singctl checkpoint "+job, 0)
		c.waitForLine(t, job, "0-batch 15")
		node := c.showColumn(t, job, "NodeList")
		c.runAsRoot(t, "scontrol requeue "+job)
		c.restartJob(t, job, node)
		want := strings.Join(slices.Concat([]string{"/tmp/slurm/startup yes"}, inContainer("0-batch"), []string{"script 0"}), "\n")
		c.checkCompleted(t, job, want)
	})
	t.Run("step", func(t *testing.T) {
		t.Parallel()
		job := c.submitJob(t, "--singularity --nodes 2 --ntasks 2", "srun --container $HOME/bundle "+run+"step; echo script $?")
		c.waitForLine(t, job, "1-step 10")
		c.runAsRoot(t, "scontrol requeue "+job)
		c.restartJob(t, job, "")
		if s := c.waitForEnd(t, job); !strings.Contains(s, "COMPLETED") {
			t.Errorf("the job ended as %s, want COMPLETED", s)
		}
		var want []string
		want = append(want, inContainer("0-step")...)
		want = append(want, inContainer("1-step")...)
		want = append(want, "script 0")
		got := strings.Split(c.jobLog(job), "\n")
		slices.Sort(want)
		slices.Sort(got)
		if !slices.Equal(got, want) {
			t.Errorf("the job's log is not as expected:\n%s", c.jobLog(job))
		}
	})
	t.Run("removed", func(t *testing.T) {
		t.Parallel()
		// The bundle of a step that has ended is removed, and the job is captured and moves without it.
		job := c.submitJob(t, "--singularity --nodes 1", `srun --container $HOME/removed sh -c 'echo in the container > /data/said'
cat $HOME/removed/rootfs/data/said; rm -r $HOME/removed; echo removed $?; ls $HOME/removed
for n in $(seq 20); do echo $n; sleep 0.2; done`)
		c.waitForLine(t, job, "5")
		node := c.showColumn(t, job, "NodeList")
		c.runAsRoot(t, "scontrol requeue "+job)
		c.restartJob(t, job, node)
		if s := c.waitForEnd(t, job); !strings.Contains(s, "COMPLETED") {
			t.Errorf("the job ended as %s, want COMPLETED", s)
		}
		want := []string{"in the container", "removed 0", "ls: cannot access '/shared/home/alice/removed': No such file or directory"}
		for n := range 20 {
			want = append(want, fmt.Sprint(n+1))
		}
		if got := c.jobLog(job); got != strings.Join(want, "\n") {
			t.Errorf("the job's log is not as expected:\n%s", got)
		}
	})
	t.Run("missing", func(t *testing.T) {
		t.Parallel()
		said := c.runOn(t, "ctl", "alice", "bash", "-c", "cd; sbatch --singularity --container no-bundle --wrap true")
		const want = "singularity: --container=no-bundle: No such file or directory; accepted: the absolute path of an OCI bundle"
		if said.code == 0 || !strings.Contains(said.err, want) {
			t.Errorf("sbatch: %d\n%s", said.code, said.err)
		}
		said = c.runOn(t, "ctl", "alice", "bash", "-c", "cd; sbatch --singularity --container bundle --wrap true")
		if said.code == 0 || !strings.Contains(said.err, "write --container=/shared/home/alice/bundle\n") {
			t.Errorf("sbatch: %d\n%s", said.code, said.err)
		}
		c.runScript(t, "cd; printf '#!/bin/sh\n#SBATCH --singularity --container no-bundle\n' > missing.sh")
		c.checkCommand(t, "alice", "cd; singctl check missing.sh", 8, "^missing.sh:2: refused: --container=no-bundle: No such file")
		c.runScript(t, `cd; printf '#!/bin/sh\n#SBATCH --singularity-gpus=4-2\nif true\n' > wrong.sh`)
		c.checkCommand(t, "alice", "cd; singctl check wrong.sh", 8, "^wrong.sh:2: refused: --singularity-gpus=4-2: the minimum is above the maximum",
			"^wrong.sh:4: refused: Syntax error: end of file unexpected")
		c.runScript(t, `cd; printf '#!/bin/sh\n#SBATCH --singularity --container bundle\ntrue\n' > right.sh; sed -i "s,bundle,$PWD/bundle," right.sh`)
		c.checkCommand(t, "alice", "cd; singctl check right.sh", 0, "^right.sh: nothing in its text")
		if queued := c.runScript(t, "squeue --noheader --me --name=right.sh,wrong.sh"); queued != "" {
			t.Errorf("singctl check has queued:\n%s", queued)
		}
		job := c.submitJob(t, "--singularity --nodes 1", "srun --container no-bundle true; echo step $?")
		c.waitForEnd(t, job)
		if got := c.jobLog(job); !strings.Contains(got, want) || !strings.Contains(got, "step 1") {
			t.Errorf("the job's log is not as expected:\n%s", got)
		}
	})
	t.Run("not of a bundle", func(t *testing.T) {
		t.Parallel()
		c.runScript(t, `cd; mkdir -p refused/rootfs; ln -sf /proc/self/status refused/config.json`)
		job := c.submitJob(t, "--singularity --nodes 1", "srun --container $HOME/refused true; echo step $?")
		c.waitForEnd(t, job)
		if got := c.jobLog(job); !strings.Contains(got, "step ") || strings.Contains(got, "step 0") {
			t.Errorf("the job's log is not as expected:\n%s", got)
		}
	})
	t.Run("unprotected", func(t *testing.T) {
		t.Parallel()
		job := c.submitJob(t, "", "srun --container $HOME/bundle sh -c 'cat /etc/os-release; id -u'")
		if s := c.waitForEnd(t, job); !strings.Contains(s, "COMPLETED") || c.jobLog(job) != "ID=image\n0" {
			t.Errorf("the site's own runtime: %s\n%s", s, c.jobLog(job))
		}
	})
}
