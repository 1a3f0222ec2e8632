// SPDX-FileCopyrightText: 2026 The singularity-slurm authors
// SPDX-License-Identifier: Apache-2.0

package capsule

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
)

// spool is the SlurmdSpoolDir of a node's slurmd: files of slurmd's own, and the folder of a job.
type spool struct{ dir, job, script string }

func newSpool(t *testing.T) spool {
	t.Helper()
	dir := filepath.Join(tools.dir, "spool-"+strings.ReplaceAll(t.Name(), "/", "-"))
	t.Cleanup(func() { os.RemoveAll(dir) })
	s := spool{dir, filepath.Join(dir, "job00005"), filepath.Join(dir, "job00005", "slurm_script")}
	err := errors.Join(os.MkdirAll(filepath.Join(dir, "conf-cache"), 0o755),
		os.WriteFile(filepath.Join(dir, "conf-cache", "slurm.conf"), []byte("conf\n"), 0o644),
		os.WriteFile(filepath.Join(dir, "cred_state"), []byte("state\n"), 0o600),
		os.Symlink("conf-cache", filepath.Join(dir, "conf")))
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// writeScript writes a batch script as slurmd (slurmstepd) does.
func (s spool) writeScript(t *testing.T, text string) {
	t.Helper()
	if err := errors.Join(os.Mkdir(s.job, 0o755), os.WriteFile(s.script, []byte(text), 0o755)); err != nil {
		t.Fatal(err)
	}
}

// removeScript removes the script as slurmd does at its end.
func (s spool) removeScript(t *testing.T) {
	t.Helper()
	if err := errors.Join(os.Remove(s.script), os.Remove(s.job)); err != nil {
		t.Fatal("slurmd cannot remove the job's folder: ", err)
	}
}

// savedScript returns the script that was kept at the first start.
func (s spool) savedScript(t *testing.T) Bind {
	t.Helper()
	path := filepath.Join(t.TempDir(), "script")
	if err := os.WriteFile(path, []byte("#!/bin/bash\necho \"$0\"; cat \"$0\" | wc -l\nwhile read -r line; do cat \"$0\" | tail -n 1; done\n# saved\n"), 0o755); err != nil {
		t.Fatal(err)
	}
	return Bind{Source: path, Target: s.script, ReadOnly: true, Alone: true}
}

// runInCapsule starts the script in c, and checks that the script sees its own path and text.
func (s spool) runInCapsule(t *testing.T, c *Capsule) *running {
	t.Helper()
	r := task{c: c, argv: []string{s.script}}.startTask(t)
	r.out.expectLine(s.script)
	r.out.expectLine("4")
	r.echoesAs("look", "# saved")
	return r
}

func (r *running) echoesAs(word, want string) {
	r.t.Helper()
	fmt.Fprintln(r.in, word)
	r.out.expectLine(want)
}

// TestScriptOutlivesSlurmd: a capsule keeps its script when slurmd changes or removes its own copy, and the capsule
// does not hinder slurmd.
func TestScriptOutlivesSlurmd(t *testing.T) {
	needRoot(t)
	s := newSpool(t)
	s.writeScript(t, "#!/bin/sh\necho slurmd\n")
	c := newCapsule(t, func(spec *Spec) { spec.Binds = []Bind{s.savedScript(t)} })
	r := s.runInCapsule(t, c)
	s.removeScript(t)
	r.echoesAs("again", "# saved")
	s.writeScript(t, "#!/bin/sh\necho slurmd, in the next run\n") // the requeued run, on this node again
	r.echoesAs("again", "# saved")
	if b, err := os.ReadFile(s.script); err != nil || !strings.Contains(string(b), "next run") {
		t.Errorf("slurmd's own script: %q, %v", b, err)
	}
	got, stderr, _ := task{c: c, name: "look", argv: shellCommand("cd " + s.dir + "; cat conf/slurm.conf; ls; ls job00005; cat cred_state; stat -c %a . cred_state")}.runTask(t)
	if want := "conf\nconf\nconf-cache\ncred_state\njob00005\nslurm_script\n755\n600\n"; got != want || !strings.Contains(stderr, "denied") {
		t.Errorf("got %q, want %q; stderr %q", got, want, stderr)
	}
	if err := c.Remove(testDeadline(t)); err != nil {
		t.Fatal(err)
	}
	r.waitForEnd()
	s.removeScript(t)
}

// TestScriptElsewhere: a node may lack the job's folder, and even the spool. Two capsules that show the same
// missing path do not disturb each other or slurmd.
func TestScriptElsewhere(t *testing.T) {
	needRoot(t)
	for _, k := range []struct {
		name  string
		alone bool
		spool bool
	}{{"no job folder", true, true}, {"no spool", true, false}, {"no job folder, not alone", false, true}, {"no spool, not alone", false, false}} {
		t.Run(k.name, func(t *testing.T) {
			s := newSpool(t)
			if !k.spool {
				os.RemoveAll(s.dir)
			}
			bind := s.savedScript(t)
			bind.Alone = k.alone
			before := listPaths(t, tools.dir)
			one := newCapsule(t, func(spec *Spec) { spec.Binds = []Bind{bind} })
			two := newCapsule(t, func(spec *Spec) { spec.Binds = []Bind{bind} })
			if after := listPaths(t, tools.dir); after != before {
				t.Errorf("the node had %s, now %s", before, after)
			}
			r := s.runInCapsule(t, one)
			q := s.runInCapsule(t, two)
			os.MkdirAll(s.dir, 0o755)
			s.writeScript(t, "#!/bin/sh\necho slurmd\n")
			if err := one.Remove(testDeadline(t)); err != nil {
				t.Fatal(err)
			}
			r.waitForEnd()
			q.echoesAs("again", "# saved")
			s.removeScript(t)
			q.echoesAs("again", "# saved")
		})
	}
}

// listPaths returns the paths of all files below a folder.
func listPaths(t *testing.T, dir string) string {
	t.Helper()
	var all []string
	if err := filepath.WalkDir(dir, func(path string, _ fs.DirEntry, err error) error {
		all = append(all, path)
		return err
	}); err != nil {
		t.Fatal(err)
	}
	return strings.Join(all, "\n")
}

// TestBindOnLink: /usr/bin/srun may be a link into the folder of a release.
func TestBindOnLink(t *testing.T) {
	needRoot(t)
	dir := filepath.Join(tools.dir, "release")
	t.Cleanup(func() { os.RemoveAll(dir) })
	wrapper, real, link := filepath.Join(dir, "wrapper"), filepath.Join(dir, "26.05", "srun"), filepath.Join(dir, "srun")
	err := errors.Join(os.MkdirAll(filepath.Dir(real), 0o755), os.Symlink("26.05/srun", link),
		os.WriteFile(wrapper, []byte("#!/bin/sh\necho wrapper\n"), 0o755), os.WriteFile(real, []byte("#!/bin/sh\necho real\n"), 0o755))
	if err != nil {
		t.Fatal(err)
	}
	c := newCapsule(t, func(s *Spec) { s.Binds = []Bind{{Source: wrapper, Target: link, ReadOnly: true}} })
	out, stderr, _ := task{c: c, argv: shellCommand(link + "; " + real + "; readlink " + link)}.runTask(t)
	if out != "wrapper\nwrapper\n26.05/srun\n" {
		t.Errorf("stdout %q, stderr %q, want the wrapper behind the link", out, stderr)
	}
	if out, _, _ := (task{argv: []string{link}}).runTask(t); out != "real\n" {
		t.Errorf("on the node: %q", out)
	}
}

// TestBindWhereOthersLeave: a capsule can cover a folder in which other processes make and remove entries all
// the time, as slurmd does in its spool.
func TestBindWhereOthersLeave(t *testing.T) {
	needRoot(t)
	dir := filepath.Join(tools.dir, "busy")
	if err := os.Mkdir(dir, 0o755); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.RemoveAll(dir) })
	done := make(chan struct{})
	var others sync.WaitGroup
	for i := range 200 {
		other := filepath.Join(dir, fmt.Sprint("job", i))
		if err := os.MkdirAll(other, 0o755); err != nil {
			t.Fatal(err)
		}
		if i%2 == 0 {
			continue
		}
		others.Go(func() {
			for {
				select {
				case <-done:
					return
				default:
					os.Remove(other)
					os.Mkdir(other, 0o755)
				}
			}
		})
	}
	defer others.Wait()
	defer close(done)
	capsules := 5
	if testing.Short() {
		capsules = 2
	}
	for range capsules {
		c := newCapsule(t, func(s *Spec) { s.Binds = []Bind{{Source: "/etc/passwd", Target: filepath.Join(dir, "mine", "script")}} })
		if out, stderr, _ := (task{c: c, argv: shellCommand("head -c 4 " + dir + "/mine/script; ls -d " + dir + "/job100")}).runTask(t); out != "root"+dir+"/job100\n" {
			t.Errorf("stdout %q, stderr %q, want the script and the other entry", out, stderr)
		}
	}
}

// TestBindInPrivate: missing targets in the capsule's own folders are made.
func TestBindInPrivate(t *testing.T) {
	needRoot(t)
	file := filepath.Join(tools.dir, "file")
	if err := os.WriteFile(file, []byte("hello\n"), 0o644); err != nil {
		t.Fatal(err)
	}
	c := newCapsule(t, func(s *Spec) {
		s.Binds = []Bind{{Source: file, Target: "/tmp/a/b"}, {Source: tools.dir, Target: "/tmp/c"}, {Source: file, Target: "/dev/shm/d/e", Alone: true},
			{Source: file, Target: "/opt/capsule-test/x/y"}, {Source: file, Target: "/opt/capsule-test/x/z"}}
	})
	out, stderr, _ := task{c: c, argv: shellCommand("cat /tmp/a/b /tmp/c/file /dev/shm/d/e /opt/capsule-test/x/y /opt/capsule-test/x/z; touch /tmp/mine")}.runTask(t)
	if out != strings.Repeat("hello\n", 5) || stderr != "" {
		t.Errorf("stdout %q, stderr %q, want five greetings", out, stderr)
	}
	for _, path := range []string{"tmp/mine", "tmp/a/b"} {
		if _, err := os.Stat(filepath.Join(c.Dir(), path)); err != nil {
			t.Error(err)
		}
	}
	if _, err := os.Stat("/opt/capsule-test"); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("made on the node: %v", err)
	}
}

// TestBindRefused: the error names the target that cannot be shown, and no folder is left behind.
func TestBindRefused(t *testing.T) {
	needRoot(t)
	crowd := filepath.Join(tools.dir, "crowd")
	t.Cleanup(func() { os.RemoveAll(crowd) })
	if err := os.Mkdir(crowd, 0o755); err != nil {
		t.Fatal(err)
	}
	for i := range maxEntries + 1 {
		if err := os.WriteFile(fmt.Sprint(crowd, "/", i), nil, 0o644); err != nil {
			t.Fatal(err)
		}
	}
	for _, k := range []struct{ target, want string }{
		{"relative", "want an absolute path"},
		{"/", "want an absolute path"},
		{crowd + "/job/script", "4097 entries are in it, more than 4096"},
		{"/dev/null/x", syscall.ENOTDIR.Error()},
	} {
		dir := filepath.Join(t.TempDir(), "capsule")
		_, err := Make(testDeadline(t), Spec{Dir: dir, Hostname: "cap", Binds: []Bind{{Source: "/etc/passwd", Target: k.target}}})
		if err == nil || !strings.Contains(err.Error(), k.target) || !strings.Contains(err.Error(), k.want) {
			t.Errorf("%s: got %v, want %q", k.target, err, k.want)
		}
		if _, err := os.Stat(dir); !errors.Is(err, fs.ErrNotExist) {
			t.Errorf("target %s: stat of the capsule's folder: error %v, want that it does not exist", k.target, err)
		}
	}
}
