// SPDX-FileCopyrightText: 2026 The singularity-slurm authors
// SPDX-License-Identifier: Apache-2.0

package capsule

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// given has the mounts that each container has.
const given = "/proc=/proc /sys=/sys /dev=/dev "

func (p ContainerPlan) String() string {
	text := p.Rootfs
	if p.ReadOnly {
		text += "(ro)"
	}
	text += " in " + p.Cwd + ":"
	for _, m := range p.Mounts {
		text += " " + m.Target + "=" + m.Source
		if m.ReadOnly {
			text += "(ro)"
		}
	}
	return text
}

func TestPlanContainer(t *testing.T) {
	t.Parallel()
	const hosts = "/etc/hosts=/etc/hosts(ro)"
	mounts := func(m string) string { return `{"root":{"path":"rootfs"},"mounts":[` + m + `]}` }
	for name, test := range map[string]struct{ config, want string }{
		"relative root":    {`{"root":{"path":"rootfs"}}`, "/b/rootfs in /: " + given + hosts},
		"read-only":        {`{"root":{"path":"/img","readonly":true},"process":{"cwd":"/w"}}`, "/img(ro) in /w: " + given + hosts},
		"given":            {mounts(`{"destination":"/proc","type":"proc"},{"destination":"/dev/shm","type":"tmpfs"},{"destination":"/sys/fs/cgroup","type":"cgroup"}`), "/b/rootfs in /: " + given + hosts},
		"tmpfs":            {mounts(`{"destination":"/tmp","type":"tmpfs"},{"destination":"/run/lock","type":"tmpfs"}`), "/b/rootfs in /: " + given + "/tmp=/tmp /run/lock=/tmp/.singularity-containers/run_lock " + hosts},
		"bind":             {mounts(`{"destination":"/data/../x","source":"d","options":["rbind","ro"]}`), "/b/rootfs in /: " + given + "/x=/b/d(ro) " + hosts},
		"device":           {mounts(`{"destination":"/dev/fuse","source":"/dev/null","type":"bind"}`), "/b/rootfs in /: " + given + "/dev/fuse=/dev/null " + hosts},
		"cwd leads out":    {`{"root":{"path":"r"},"process":{"cwd":"../../etc"}}`, "/b/r in /etc: " + given + hosts},
		"no JSON":          {`{`, "config.json: "},
		"no root":          {`{}`, "config.json has no root.path"},
		"over the root":    {mounts(`{"destination":"/a/..","type":"bind","source":"/x"}`), "it would cover the container's root"},
		"overlay":          {mounts(`{"destination":"/a","type":"overlay"}`), `mount at /a: type "overlay" is not supported in a protected job: want bind or tmpfs`},
		"bind of nothing":  {mounts(`{"destination":"/a","type":"bind"}`), "mount at /a has no source"},
		"too many":         {mounts(strings.Repeat(`{"destination":"/a","type":"bind","source":"/x"},`, 200) + `{"destination":"/a","type":"bind","source":"/x"}`), "more than 128"},
		"too long":         {mounts(`{"destination":"/a","type":"bind","source":"/` + strings.Repeat("x", maxPlan) + `"}`), "bytes to describe"},
		"config left out":  {"", "/b in /: " + given + hosts},
		"config is a list": {"[]", "config.json: "},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			var config []byte
			if test.config != "" {
				config = []byte(test.config)
			}
			got, err := planContainer(ContainerRequest{Bundle: "/b"}, config)
			said := got.String()
			if err != nil {
				said = err.Error()
			}
			if err == nil && said != test.want || err != nil && !strings.Contains(said, test.want) {
				t.Errorf("got  %s\nwant %s", said, test.want)
			}
		})
	}
}

func FuzzPlanContainer(f *testing.F) {
	f.Add([]byte(`{"root":{"path":"rootfs"},"mounts":[{"destination":"/a","type":"bind","source":"x"}]}`))
	f.Fuzz(func(t *testing.T, config []byte) {
		plan, err := planContainer(ContainerRequest{Bundle: "/b", Script: "/s"}, config)
		if err != nil {
			return
		}
		for _, m := range plan.Mounts {
			if m.Target == "/" || m.Target != filepath.Clean(m.Target) || !filepath.IsAbs(m.Target) || !filepath.IsAbs(m.Source) {
				t.Errorf("the plan has a mount with an unclean path: %+v", m)
			}
		}
	})
}

func TestRealPath(t *testing.T) {
	t.Parallel()
	c := Container{Root: "/run/c/1", Plan: ContainerPlan{Rootfs: "/home/b/rootfs", Mounts: []ContainerMount{
		{Source: "/usr", Target: "/usr"}, {Source: "/opt/x", Target: "/usr/local"}, {Source: "/tmp", Target: "/tmp"},
	}}}
	for path, want := range map[string]string{
		"/run/c/1/data/f":        "/home/b/rootfs/data/f",
		"/run/c/1":               "/home/b/rootfs",
		"/run/c/1/usr/bin/a":     "/usr/bin/a",
		"/run/c/1/usr/local/b":   "/opt/x/b",
		"/run/c/1/usrlocal":      "/home/b/rootfs/usrlocal",
		"/run/c/1/tmp":           "/tmp",
		"/run/c/11/x":            "/run/c/11/x",
		"/run/c/1/../../../etc":  "/home/b/rootfs/etc",
		"/home/b/rootfs/already": "/home/b/rootfs/already",
	} {
		if got := c.RealPath(path); got != want {
			t.Errorf("%s is %s, want %s", path, got, want)
		}
	}
}

// bundle is a user's bundle on the node, outside of the folders that a capsule has of its own.
type bundle struct{ dir, root string }

func newBundle(t *testing.T, mounts ...ociMount) bundle {
	t.Helper()
	needRoot(t)
	dir := filepath.Join(tools.dir, "bundle-"+strings.ReplaceAll(t.Name(), "/", "-"))
	t.Cleanup(func() { os.RemoveAll(dir) })
	b := bundle{dir, filepath.Join(dir, "rootfs")}
	for _, name := range []string{"proc", "sys", "dev", "etc"} {
		if err := os.MkdirAll(filepath.Join(b.root, name), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	config, err := json.Marshal(map[string]any{"root": map[string]string{"path": "rootfs"}, "mounts": mounts})
	if err == nil {
		err = os.WriteFile(filepath.Join(dir, "config.json"), config, 0o644)
	}
	if err == nil {
		err = filepath.WalkDir(dir, func(p string, _ os.DirEntry, err error) error {
			if err == nil {
				err = os.Lchown(p, user, user)
			}
			return err
		})
	}
	if err != nil {
		t.Fatal(err)
	}
	return b
}

// containersAt sets where the capsules of these tests show containers.
func containersAt(s *Spec) { s.Containers = "/run/singularity-test-containers" }

func (b bundle) openBundle(t *testing.T, c *Capsule) (Container, error) {
	t.Helper()
	return b.openFor(t, c, "batch")
}

func (b bundle) openFor(t *testing.T, c *Capsule, program string) (Container, error) {
	t.Helper()
	return c.OpenContainer(testDeadline(t), ContainerRequest{Bundle: b.dir}, program, User{UID: user, GID: user})
}

// TestContainerShown: a capsule shows a bundle once, with the file systems that are mounted there.
func TestContainerShown(t *testing.T) {
	src := filepath.Join(tools.dir, "shown-in-container")
	if err := os.MkdirAll(filepath.Join(src, "inner"), 0o755); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.RemoveAll(src) })
	b := newBundle(t, ociMount{Destination: "/data", Type: "bind", Source: src, Options: []string{"ro"}}, ociMount{Destination: "/run/lock", Type: "tmpfs"})
	c := newCapsule(t, containersAt)
	shown, err := b.openBundle(t, c)
	if err != nil {
		t.Fatal(err)
	}
	if again, err := b.openBundle(t, c); err != nil || again.Root != shown.Root {
		t.Errorf("second OpenContainer = %s, %v, want the same root", again.Root, err)
	}
	in := fmt.Sprintf("/proc/%d/root%s", c.PID(), shown.Root)
	for _, name := range []string{"proc/self", "dev/null", "data/inner", "run/lock", "sys/kernel"} {
		if _, err := os.Lstat(filepath.Join(in, name)); err != nil {
			t.Error(err)
		}
	}
	if err := os.WriteFile(filepath.Join(in, "data/new"), nil, 0o644); err == nil {
		t.Error("a read-only mount can be written to")
	}
	if _, err := os.Lstat(filepath.Join(b.root, "dev/null")); err == nil {
		t.Error("the mounts are seen outside of the capsule")
	}
}

// TestContainerGoes: when the last program of a container has ended, its user can remove the bundle in the capsule, as
// without a container. So it is with a container that was restored; a container of unknown programs stays.
func TestContainerGoes(t *testing.T) {
	for name, test := range map[string]struct {
		show func(t *testing.T, c *Capsule, b bundle) error
		goes bool
	}{
		"opened": {func(t *testing.T, c *Capsule, b bundle) error {
			_, err := b.openFor(t, c, "0.0")
			if err == nil {
				_, err = b.openFor(t, c, "0.1")
			}
			return err
		}, true},
		"restored": {func(t *testing.T, c *Capsule, b bundle) error {
			was := Container{Plan: ContainerPlan{Rootfs: b.root, Cwd: "/", Mounts: []ContainerMount{{Source: "/proc", Target: "/proc"}}}, Programs: []string{"0.0", "0.1"}}
			return c.RestoreContainer(testDeadline(t), was, User{UID: user, GID: user})
		}, true},
		"of unknown programs": {func(t *testing.T, c *Capsule, b bundle) error {
			was := Container{Plan: ContainerPlan{Rootfs: b.root, Cwd: "/", Mounts: []ContainerMount{{Source: "/proc", Target: "/proc"}}}}
			return c.RestoreContainer(testDeadline(t), was, User{UID: user, GID: user})
		}, false},
	} {
		t.Run(name, func(t *testing.T) {
			b := newBundle(t)
			c := newCapsule(t, containersAt)
			if err := test.show(t, c, b); err != nil {
				t.Fatal(err)
			}
			remove := task{c: c, name: "rm", argv: []string{"rmdir", filepath.Join(b.root, "proc")}}
			for _, program := range []string{"0.0", "0.1"} {
				if _, said, status := remove.runTask(t); status == 0 || !strings.Contains(said, "Device or resource busy") {
					t.Errorf("before the end of %s: status %v, %s", program, status, said)
				}
				if _, said, status := (task{c: c, name: program, argv: []string{"true"}}).runTask(t); status != 0 {
					t.Errorf("program %s in the container: status %v, stderr %s", program, status, said)
				}
			}
			if _, said, status := remove.runTask(t); (status == 0) != test.goes {
				t.Errorf("after the end: status %v, %s", status, said)
			}
			for _, at := range mountsOf(t, c) {
				if test.goes && strings.HasPrefix(at, "/run/singularity-test-containers/") {
					t.Errorf("left mounted: %s", at)
				}
			}
		})
	}
}

// TestContainersAreBounded: a job cannot fill its node's memory with mounts.
func TestContainersAreBounded(t *testing.T) {
	b := newBundle(t)
	c := newCapsule(t, containersAt)
	for n := range maxContainers {
		plan := ContainerPlan{Rootfs: b.root, Cwd: fmt.Sprint("/", n)}
		if err := c.RestoreContainer(testDeadline(t), Container{Plan: plan}, User{UID: user, GID: user}); err != nil {
			t.Fatalf("container %d: %v", n, err)
		}
	}
	if _, err := b.openBundle(t, c); err == nil || !strings.Contains(err.Error(), "may have no more") {
		t.Errorf("one container more than allowed: error %v, want a refusal", err)
	}
	plan := ContainerPlan{Rootfs: b.root, Cwd: "/0"}
	if err := c.RestoreContainer(testDeadline(t), Container{Plan: plan}, User{UID: user, GID: user}); err != nil {
		t.Errorf("a container that is shown: %v", err)
	}
}

// TestCountMounts: a mount counts whatever the folder is called that a user has mounted there.
func TestCountMounts(t *testing.T) {
	for _, name := range []string{"plain", `with\040space`, "form\ffeed", "return\r", "vertical\vtab", "no-break\u00a0space", "next\u0085line"} {
		table := "22 1 254:0 / / rw,relatime shared:1 - ext4 /dev/vda rw\n" +
			"841 821 254:0 /home/alice/" + name + " /containers/batch/data rw,relatime master:1 - ext4 /dev/vda rw\n" +
			"842 821 0:20 / /containers-of-others rw - tmpfs " + name + " rw\n"
		if n := countMounts([]byte(table), "/containers"); n != 1 {
			t.Errorf("%d mounts of %q below the folder, want 1", n, name)
		}
	}
}

// TestContainersOfContainers: a container with the capsule's root does not have the capsule's containers inside, itself
// included: the number of mounts would double with each bind. Later mounts of the node do not appear in a container,
// and the mounts of all containers are bounded: else the node's own mounts would find no room in the capsule.
func TestContainersOfContainers(t *testing.T) {
	var roots []ociMount
	for n := range 10 {
		roots = append(roots, ociMount{Destination: fmt.Sprintf("/a%d", n), Type: "bind", Source: "/", Options: []string{"rbind"}})
	}
	b := newBundle(t, roots...)
	c := newCapsule(t, containersAt)
	before := len(mountsOf(t, c))
	shown, err := b.openBundle(t, c)
	if err != nil {
		t.Fatal(err)
	}
	if got, most := len(mountsOf(t, c))-before, (len(roots)+4)*before; got > most {
		t.Errorf("a container with the root %d times has %d mounts, the capsule had %d", len(roots), got, before)
	}
	if names, err := os.ReadDir(fmt.Sprintf("/proc/%d/root%s/a9/run/singularity-test-containers", c.PID(), shown.Root)); err == nil && len(names) > 0 {
		t.Errorf("a container shows containers: %v", names)
	}
	table, err := os.ReadFile(fmt.Sprintf("/proc/%d/mountinfo", c.PID()))
	if err != nil {
		t.Fatal(err)
	}
	for line := range strings.Lines(string(table)) {
		if strings.Contains(line, " /run/singularity-test-containers/") && (strings.Contains(line, " master:") || strings.Contains(line, " shared:")) {
			t.Errorf("the node's mounts come into a container: %s", line)
		}
	}
	as := User{UID: user, GID: user}
	if err := c.RestoreContainer(testDeadline(t), Container{Plan: ContainerPlan{Rootfs: "/run/singularity-test-containers", Cwd: "/"}}, as); err == nil {
		t.Error("a container has the containers for a root")
	}
	bound := false
	for n := 0; n < maxContainers && !bound; n++ {
		plan := shown.Plan
		plan.Cwd = fmt.Sprint("/", n)
		for len(plan.Mounts) < maxContainerMounts/2 {
			plan.Mounts = append(plan.Mounts, ContainerMount{Source: "/", Target: "/a0"})
		}
		mounted := len(mountsOf(t, c))
		if err := c.RestoreContainer(testDeadline(t), Container{Plan: plan}, as); err != nil {
			bound = strings.Contains(err.Error(), "mounts in containers, and may have no more than")
			if !bound || len(mountsOf(t, c)) != mounted {
				t.Fatalf("%d mounts, before %d: %v", len(mountsOf(t, c)), mounted, err)
			}
		}
	}
	if got := len(mountsOf(t, c)) - before; !bound || got > maxMountsOfContainers {
		t.Errorf("%d mounts in containers", got)
	}
}

// TestContainerOfAttacker: a user gets no new rights by any content of a bundle, and no path leads out of the
// container's root.
func TestContainerOfAttacker(t *testing.T) {
	secret := filepath.Join(tools.dir, "secret-of-root")
	if err := os.MkdirAll(filepath.Join(secret, "inner"), 0o700); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.RemoveAll(secret) })
	bind := func(source, target string) ociMount {
		return ociMount{Destination: target, Type: "bind", Source: source}
	}
	for name, test := range map[string]struct {
		mount   ociMount
		prepare func(t *testing.T, b bundle)
		want    string // of the error; "": the container is shown
	}{
		"folder of root":    {mount: bind(secret+"/inner", "/x"), want: "permission denied"},
		"descriptor":        {mount: bind("/proc/self/fd/6", "/x"), want: "too many levels of symbolic links"},
		"root by /proc":     {mount: bind("/proc/self/root", "/x"), want: "too many levels of symbolic links"},
		"config is a link":  {prepare: replaceConfig("/proc/self/status"), want: "a file of /proc"},
		"config is secret":  {prepare: replaceConfig("/proc/self/environ"), want: "permission denied"},
		"config is a pipe":  {prepare: replaceConfig("/dev/ptmx"), want: "not a regular file"},
		"target leads out":  {mount: bind("/dev", "/x"), prepare: linkInRoot("x", "/../../../etc")},
		"target in /proc":   {mount: bind("/dev", "/proc/self/cwd"), want: "too many levels of symbolic links"},
		"target not theirs": {mount: bind("/dev", "/etc/x"), prepare: rootOwned("etc"), want: "make /etc/x: permission denied"},
	} {
		t.Run(name, func(t *testing.T) {
			var mounts []ociMount
			if test.mount.Destination != "" {
				mounts = append(mounts, test.mount)
			}
			b := newBundle(t, mounts...)
			if test.prepare != nil {
				test.prepare(t, b)
			}
			c := newCapsule(t, containersAt)
			before := mountsOf(t, c)
			_, err := b.openBundle(t, c)
			switch {
			case test.want == "" && err != nil:
				t.Fatal(err)
			case test.want != "" && (err == nil || !strings.Contains(err.Error(), test.want)):
				t.Fatalf("error %v, want %q", err, test.want)
			}
			for _, at := range mountsOf(t, c)[len(before):] {
				if !strings.HasPrefix(at, "/run/singularity-test-containers/") {
					t.Errorf("mounted at %s", at)
				}
				if test.want != "" {
					t.Errorf("left mounted: %s", at)
				}
			}
		})
	}
}

func replaceConfig(to string) func(*testing.T, bundle) {
	return func(t *testing.T, b bundle) {
		t.Helper()
		name := filepath.Join(b.dir, "config.json")
		if err := os.Remove(name); err != nil {
			t.Fatal(err)
		}
		if err := os.Symlink(to, name); err != nil {
			t.Fatal(err)
		}
	}
}

func linkInRoot(name, to string) func(*testing.T, bundle) {
	return func(t *testing.T, b bundle) {
		t.Helper()
		if err := os.Symlink(to, filepath.Join(b.root, name)); err != nil {
			t.Fatal(err)
		}
	}
}

func rootOwned(name string) func(*testing.T, bundle) {
	return func(t *testing.T, b bundle) {
		t.Helper()
		if err := os.Chown(filepath.Join(b.root, name), 0, 0); err != nil {
			t.Fatal(err)
		}
	}
}

// mountsOf returns a capsule's mount points.
func mountsOf(t *testing.T, c *Capsule) []string {
	t.Helper()
	b, err := os.ReadFile(fmt.Sprintf("/proc/%d/mountinfo", c.PID()))
	if err != nil {
		t.Fatal(err)
	}
	var all []string
	for line := range strings.Lines(string(b)) {
		all = append(all, strings.Fields(line)[4])
	}
	return all
}
