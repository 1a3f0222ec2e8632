// SPDX-FileCopyrightText: 2026 The singularity-slurm authors
// SPDX-License-Identifier: Apache-2.0

package capsule

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/singularity-slurm/singularity-slurm/proxyd/mounts"
)

// mountsOfCapsule are the mounts of a capsule: /tmp is the capsule's own folder, and another container is there already.
const mountsOfCapsule = `10 9 0:50 / / rw - overlay overlay rw
11 10 0:5 / /proc rw - proc proc rw
12 10 0:6 / /sys rw - sysfs sysfs rw
13 10 0:7 / /dev rw - tmpfs dev rw
14 13 0:8 / /dev/shm rw - tmpfs shm rw
15 10 8:1 /srv/shared /shared rw - ext4 /dev/sda1 rw
16 10 0:50 /var/lib/capsules/1/tmp /tmp rw - overlay overlay rw
17 10 8:1 /srv/shared/img/other /containers/00 rw - ext4 /dev/sda1 rw
18 10 8:1 /srv/shared/img /containers/00/img rw - ext4 /dev/sda1 rw
19 10 0:60 /vol\040a /data rw - nfs4 server:/ rw
`

// mountsOfNode are the mounts of that capsule's node.
const mountsOfNode = `1 0 0:50 / / rw - overlay overlay rw
2 1 8:1 /srv/shared /shared rw - ext4 /dev/sda1 rw
`

// unpacked are the mounts of a container that enroot has started: the unpacked root, and the mounts that enroot adds to each
// container.
const unpacked = `30 29 8:1 /srv/shared/img/pyxis_1.0 / ro,nosuid - ext4 /dev/sda1 rw
31 30 0:5 / /proc rw - proc proc rw
32 30 0:6 / /sys ro - sysfs sysfs rw
33 30 0:7 / /dev rw - tmpfs dev rw
34 33 0:8 / /dev/shm rw - tmpfs shm rw
35 30 0:50 /etc/hosts /etc/hosts ro - overlay overlay rw
36 30 8:1 /srv/shared/img/pyxis_1.0/.lock /.lock ro - ext4 /dev/sda1 rw
`

func parseMounts(t *testing.T, text string) []mounts.Mount {
	t.Helper()
	all, err := mounts.Parse(strings.NewReader(text))
	if err != nil {
		t.Fatal(err)
	}
	return all
}

// TestPlanJoinedContainer: the plan of a container that pyxis has made consists of paths in the capsule. A mount that has no
// path in the capsule is refused by name.
func TestPlanJoinedContainer(t *testing.T) {
	t.Parallel()
	const start = "/shared/img/pyxis_1.0(ro) in /w: " + given + "/etc/hosts=/etc/hosts(ro)"
	for name, test := range map[string]struct{ mounts, want string }{
		"as unpacked":       {unpacked, start},
		"bind":              {unpacked + "40 30 0:60 /vol\\040a/d /data rw - nfs4 server:/ rw\n", start + " /data=/data/d"},
		"read-only":         {unpacked + "40 30 8:1 /srv/shared/x /x ro - ext4 /dev/sda1 rw\n", start + " /x=/shared/x(ro)"},
		"part of a bind":    {unpacked + "40 30 0:50 /home /home rw - overlay o rw\n41 40 0:50 /home/a /home/a rw - overlay o rw\n", start + " /home=/home"},
		"read-only within":  {unpacked + "40 30 0:50 /home /home rw - overlay o rw\n41 40 0:50 /home/a /home/a ro - overlay o rw\n", start + " /home=/home /home/a=/home/a(ro)"},
		"the job's /tmp":    {unpacked + "40 30 0:50 /tmp/d /d rw - overlay o rw\n", start + " /d=/tmp/d"},
		"tmpfs":             {unpacked + "40 30 0:90 / /tmp rw - tmpfs t rw\n41 30 0:91 / /run/lock rw - tmpfs t rw\n", start + " /tmp=/tmp /run/lock=/tmp/.singularity-containers/run_lock"},
		"device":            {unpacked + "40 33 0:50 /opt/null /dev/x rw - overlay o rw\n", start + " /dev/x=/opt/null"},
		"own root again":    {unpacked + "40 30 8:1 /srv/shared /shared rw - ext4 /dev/sda1 rw\n41 40 8:1 /srv/shared/img/pyxis_1.0 /shared/img/pyxis_1.0 ro - ext4 /dev/sda1 rw\n42 41 0:90 / /shared/img/pyxis_1.0/tmp rw - tmpfs t rw\n", start + " /shared=/shared"},
		"root in /tmp":      {strings.Replace(unpacked, "8:1 /srv/shared/img/pyxis_1.0", "0:50 /tmp/img/pyxis_1.0", 2), "/tmp/img/pyxis_1.0(ro) in /w: " + given + "/etc/hosts=/etc/hosts(ro)"},
		"shown already":     {strings.Replace(unpacked, "/srv/shared/img/pyxis_1.0 /", "/srv/shared/img/other /", 1), "/shared/img/other(ro) in /w: " + given + "/etc/hosts=/etc/hosts(ro) /.lock=/shared/img/pyxis_1.0/.lock(ro)"},
		"writable":          {strings.Replace(unpacked, "/ ro,", "/ rw,", 1), "its root can be written, and what is written there would not go along: srun --container-readonly"},
		"squashfuse":        {"30 29 0:77 / / ro - fuse.fuse-overlayfs fuse-overlayfs rw\n", "its root is a file system of its own (fuse.fuse-overlayfs)"},
		"FUSE":              {unpacked + "40 30 0:77 / /s rw - fuse.sshfs host: rw\n", "mount at /s: fuse.sshfs that is not the node's is not supported"},
		"no root":           {"", "its root is not mounted"},
		"too many":          {unpacked + strings.Repeat("40 30 8:1 /srv/shared/x /x ro - ext4 /dev/sda1 rw\n41 30 8:1 /srv/shared/y /x ro - ext4 /dev/sda1 rw\n", 100), "more than 128"},
		"of another device": {unpacked + "40 30 8:9 /srv/shared/x /x rw - ext4 /dev/sdb rw\n", "mount at /x: ext4 that is not the node's"},
		"outside of a root": {unpacked + "40 30 8:1 /srv/sharedx /x rw - ext4 /dev/sda1 rw\n", "mount at /x: ext4 that is not the node's"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			c := JoinedContainer{Step: "s0-1", Mounts: parseMounts(t, test.mounts), Node: parseMounts(t, mountsOfNode), Shown: parseMounts(t, mountsOfCapsule), Folder: "/containers", Cwd: "/w"}
			plan, err := c.Plan()
			got := plan.String()
			if err != nil {
				got = err.Error()
			}
			if err == nil && got != test.want || !strings.Contains(got, test.want) {
				t.Errorf("plan: %s\nwant: %s", got, test.want)
			}
		})
	}
}

// TestJoinedScript: the batch script of a container is the capsule's copy, at the place that Slurm's own containers have.
func TestJoinedScript(t *testing.T) {
	t.Parallel()
	c := JoinedContainer{
		Step: "batch", Folder: "/containers", Mounts: parseMounts(t, unpacked+"40 30 0:50 /spool/job1/script /spool/job1/script ro - overlay o rw\n"), Node: parseMounts(t, mountsOfNode), Shown: parseMounts(t, mountsOfCapsule),
		Script: "/spool/copy", ScriptInside: "/spool/job1/script",
	}
	plan, err := c.Plan()
	if want := "/shared/img/pyxis_1.0(ro) in /: " + given + "/etc/hosts=/etc/hosts(ro) " + ContainerScript + "=/spool/copy(ro)"; err != nil || plan.String() != want {
		t.Errorf("plan: %s, %v\nwant: %s", plan, err, want)
	}
	other := c
	other.Step = "s0-1"
	same := c
	same.Mounts = parseMounts(t, strings.ReplaceAll(unpacked, "pyxis_1.0", "pyxis_1.7"))
	plans := map[string]string{}
	for _, c := range []JoinedContainer{c, other, same} {
		p, err := c.Plan()
		if err != nil {
			t.Fatal(err)
		}
		plans[p.Rootfs+c.Step] = p.folderName()
	}
	if a, b := plans["/shared/img/pyxis_1.0batch"], plans["/shared/img/pyxis_1.7batch"]; a == "" || a != b || a == plans["/shared/img/pyxis_1.0s0-1"] {
		t.Errorf("folders of containers: %v: want one for each step, wherever its image was unpacked", plans)
	}
	if !(Container{Plan: plan}).IsJoined() || (Container{Plan: ContainerPlan{Rootfs: "/b"}}).IsJoined() {
		t.Error("IsJoined is not true for joined containers only")
	}
}

// TestJoinedContainerShown: the root of a joined container may be in the node's /tmp, which the capsule does not show, if
// its user may go there. Other sources are the capsule's.
func TestJoinedContainerShown(t *testing.T) {
	needRoot(t)
	dir, err := os.MkdirTemp("/tmp", "joined-")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.RemoveAll(dir) })
	for _, name := range []string{"root/proc", "root/of-node", "of-root/root"} {
		if err := os.MkdirAll(filepath.Join(dir, name), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	if err := errors.Join(os.Chmod(dir, 0o755), os.Chmod(filepath.Join(dir, "of-root"), 0o700)); err != nil {
		t.Fatal(err)
	}
	c := newCapsule(t, containersAt)
	show := func(name, root string, more ...ContainerMount) (Container, error) {
		plan := ContainerPlan{Name: name, Rootfs: filepath.Join(dir, root), ReadOnly: true, Mounts: append([]ContainerMount{{Source: "/proc", Target: "/proc"}}, more...)}
		return c.ShowJoined(testDeadline(t), plan, "s0-1.0", User{UID: user, GID: user})
	}
	shown, err := show("one", "root")
	if err != nil {
		t.Fatal(err)
	}
	if again, err := show("one", "elsewhere"); err != nil || again.Root != shown.Root || again.Plan.Rootfs != shown.Plan.Rootfs {
		t.Errorf("the container of a second task = %+v, %v, want that of the first", again, err)
	}
	in := fmt.Sprintf("/proc/%d/root%s", c.PID(), shown.Root)
	if _, err := os.Lstat(filepath.Join(in, "of-node")); err != nil {
		t.Error(err)
	}
	if err := os.Mkdir(filepath.Join(in, "new"), 0o755); !errors.Is(err, syscall.EROFS) {
		t.Errorf("writing to the root: %v, want %v", err, syscall.EROFS)
	}
	if _, err := show("two", "of-root/root"); err == nil || !strings.Contains(err.Error(), "permission denied") {
		t.Errorf("a root that the user may not see: %v", err)
	}
	if _, err := show("three", "root", ContainerMount{Source: filepath.Join(dir, "root"), Target: "/of-node"}); err == nil || !strings.Contains(err.Error(), "no such file") {
		t.Errorf("a source in the node's /tmp: %v", err)
	}
	if got := fmt.Sprint(mountsOf(t, c)); strings.Contains(got, "containers/two") || strings.Contains(got, "containers/three") {
		t.Errorf("mounts of what was refused: %s", got)
	}
}
