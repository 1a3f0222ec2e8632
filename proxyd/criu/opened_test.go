// SPDX-FileCopyrightText: 2026 The singularity-slurm authors
// SPDX-License-Identifier: Apache-2.0

package criu

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/singularity-slurm/singularity-slurm/proxyd/mounts/mountstest"
)

// secretFolder is root's, and has files that look like the user's.
func secretFolder(t *testing.T, work string) string {
	t.Helper()
	dir := filepath.Join(work, "root")
	for _, d := range []string{dir, dir + "/sub"} {
		if err := os.Mkdir(d, 0o700); err != nil {
			t.Fatal(err)
		}
	}
	for _, f := range []string{dir + "/key", dir + "/sub/key"} {
		if err := os.WriteFile(f, []byte("secret\n"), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	return dir
}

// openerScript is a program that makes its files, runs the statements open, and answers each line by the value of tell.
func openerScript(work, open, tell string) string {
	return fmt.Sprintf(`
import mmap, os, socket, sys
os.chdir(%q); os.umask(0o077)
def mine(p):
    with open(p, 'w') as f: f.write('mine..\n')
mine('key'); os.mkdir('sub'); mine('sub/key')
%s
print('ready', flush=True)
for line in sys.stdin: print(%s, flush=True)`, work, open, tell)
}

// TestReplaced: files that a user puts in the place of a program's open files are not opened with more than the user's
// rights, and never in place of the open files.
func TestReplaced(t *testing.T) {
	needCRIU(t)
	rename := func(t *testing.T, work, name, to string) {
		t.Helper()
		if err := errors.Join(os.RemoveAll(filepath.Join(work, name)), os.Symlink(to, filepath.Join(work, name))); err != nil {
			t.Fatal(err)
		}
	}
	for name, test := range map[string]struct {
		open string
		do   func(t *testing.T, work string)
		says string
	}{
		"read":         {"f = open('key')", func(t *testing.T, w string) { rename(t, w, "key", "root/key") }, "key"},
		"write":        {"f = open('key', 'r+')", func(t *testing.T, w string) { rename(t, w, "key", "root/key") }, "key"},
		"folder above": {"f = open('sub/key')", func(t *testing.T, w string) { rename(t, w, "sub", "root/sub") }, "sub/key"},
		"folder":       {"f = os.open('sub', os.O_RDONLY)", func(t *testing.T, w string) { rename(t, w, "sub", "root/sub") }, "sub"},
		"cwd":          {"os.chdir('sub')", func(t *testing.T, w string) { rename(t, w, "sub", "root/sub") }, "sub"},
		"map": {"f = open('key'); m = mmap.mmap(f.fileno(), 7, prot=mmap.PROT_READ); f.close()",
			func(t *testing.T, w string) { rename(t, w, "key", "root/key") }, "key"},
		"fifo": {"os.mkfifo('fifo'); f = os.open('fifo', os.O_RDWR)",
			func(t *testing.T, w string) { rename(t, w, "fifo", "root/key") }, "fifo"},
		"removed": {"f = open('sub/gone', 'w+'); os.unlink('sub/gone')",
			func(t *testing.T, w string) { rename(t, w, "sub", "root/sub") }, "sub/gone"},
		"socket": {"s = socket.socket(socket.AF_UNIX); s.bind('sub/socket'); s.listen()",
			func(t *testing.T, w string) { rename(t, w, "sub", "root/sub") }, "sub/socket"},
		"link to one's own": {"f = open('sub/key')", func(t *testing.T, w string) {
			if err := errors.Join(os.Rename(w+"/sub", w+"/other"), os.Symlink("other", w+"/sub")); err != nil {
				t.Fatal(err)
			}
		}, "/sub/key: leads to "},
		"System V": {`f = open('key'); import ctypes
libc = ctypes.CDLL(None); assert libc.shmget(0, 4096, 0o1600) >= 0`, func(t *testing.T, w string) { rename(t, w, "key", "root/key") }, "/key: "},
		"System V, removed": {`f = open('sub/gone', 'w+'); os.unlink('sub/gone'); import ctypes
libc = ctypes.CDLL(None); assert libc.shmget(0, 4096, 0o1600) >= 0`, func(t *testing.T, w string) { rename(t, w, "sub", "root/sub") }, "sub/gone"},
		"System V, socket": {`s = socket.socket(socket.AF_UNIX); s.bind('sub/socket'); s.listen(); import ctypes
libc = ctypes.CDLL(None); assert libc.shmget(0, 4096, 0o1600) >= 0`, func(t *testing.T, w string) { rename(t, w, "sub", "root/sub") }, "sub/socket"},
		"System V, socket with .. in its path": {`s = socket.socket(socket.AF_UNIX); s.bind('/tmp/..' + os.path.abspath('sub/socket')); s.listen(); import ctypes
libc = ctypes.CDLL(None); assert libc.shmget(0, 4096, 0o1600) >= 0`, func(t *testing.T, w string) { rename(t, w, "sub", "root/sub") }, "/sub/socket"},
		"owner": {"f = open('key')", func(t *testing.T, w string) { _ = os.Chown(w+"/key", 0, user) }, "/key: belongs to root, was user 12345's at the checkpoint"},
		"group": {"f = open('key')", func(t *testing.T, w string) { _ = os.Chown(w+"/key", user, 0) }, "/key: belongs to group root, was of 12345 at the checkpoint"},
		"hard link": {"f = open('key')", func(t *testing.T, w string) {
			if err := errors.Join(os.Remove(w+"/key"), os.Link(w+"/root/key", w+"/key")); err != nil {
				t.Fatal(err)
			}
		}, "key"},
	} {
		tryReplaced := func(t *testing.T) {
			work := workDir(t)
			dir := secretFolder(t, work)
			c := newCapsule(t)
			r := c.runProgram("/usr/bin/python3", "-c", openerScript(work, test.open, "'after'"))
			r.expectLine("ready")
			images := newImageFolder(t)
			img := dumpProgram(t, r.program, images)
			c.endCapsule()
			test.do(t, work)

			c = newCapsule(t)
			r = makePipes(t)
			err := Restore(testDeadline(t), img, Program{Init: c.initPID(), AsRoot: img.RestoredByRoot()}, r.far, images)
			if err == nil || !strings.Contains(err.Error(), test.says) {
				t.Errorf("error %v, want one with %q", err, test.says)
			}
			t.Log(err)
			checkAlone(t, c)
			all, err := filepath.Glob(dir + "/*/*")
			if err != nil || len(all) != 1 || readFile(t, dir+"/key")+readFile(t, dir+"/sub/key") != "secret\nsecret\n" {
				t.Errorf("root's folder has %q (%v)", all, err)
			}
		}
		t.Run(name, tryReplaced)
		if strings.HasPrefix(name, "System V") {
			t.Run(name+", as root", func(t *testing.T) {
				letRootNumber(t)
				tryReplaced(t)
			})
		}
	}
}

// TestSwapped: a file is exchanged with another as fast as possible while a program is restored: the program comes back
// with its own file, or not at all. The user may open each of the others but root's, and criu itself finds no difference:
// they have the size and permissions of the program's own file. So only a comparison of the open files finds the exchange.
func TestSwapped(t *testing.T) {
	needCRIU(t)
	for name, test := range map[string]struct {
		open, tell string
		swap       string // a file of openerScript
		other      func(path, secrets string) error
		want       string
	}{
		"link to root's file": {"f = open('key')", "(f.seek(0), f.read())", "key",
			func(path, secrets string) error { return os.Symlink(secrets+"/key", path) }, `(0, 'mine..\n')`},
		"file of one's own": {"f = open('key')", "(f.seek(0), f.read())", "key", makeOtherFile, `(0, 'mine..\n')`},
		"mapped file": {"f = open('key'); m = mmap.mmap(f.fileno(), 7, prot=mmap.PROT_READ); f.close()", "m[:]", "key",
			makeOtherFile, `b'mine..\n'`},
		"folder": {"f = os.open('sub', os.O_RDONLY)", "os.listdir(f)", "sub", func(path, _ string) error {
			return errors.Join(os.Mkdir(path, 0o700), makeOtherFile(path+"/other", ""), os.Chown(path, user, otherGroup))
		}, "['key']"},
	} {
		t.Run(name, func(t *testing.T) {
			work := workDir(t)
			c := newCapsule(t)
			r := c.runProgram("/usr/bin/python3", "-c", openerScript(work, test.open, test.tell))
			r.expectLine("ready")
			images := newImageFolder(t)
			img := dumpProgram(t, r.program, images)
			c.endCapsule()
			if err := test.other(work+"/other", secretFolder(t, work)); err != nil {
				t.Fatal(err)
			}
			defer exchangeFiles(work+"/other", work+"/"+test.swap)()
			back, refused := 0, 0
			for back+refused < 15 || back == 0 || refused == 0 {
				if back+refused == 150 {
					t.Fatalf("%d restores succeeded and %d failed, want some of both: the exchange did not meet them", back, refused)
				}
				c := newCapsule(t)
				r := makePipes(t)
				err := Restore(testDeadline(t), img, Program{Init: c.initPID()}, r.far, images)
				if err == nil {
					back++
					r.closeFar()
					r.askAndExpect("?", test.want)
				} else {
					refused++
					checkAlone(t, c)
				}
				c.endCapsule()
			}
			t.Logf("%d of %d came back", back, back+refused)
		})
	}
}

// otherGroup is a group that programs are in, and that their files do not belong to.
const otherGroup = 23456

// makeOtherFile makes a file of the user's that differs from the files of openerScript in its content and its group.
func makeOtherFile(path, _ string) error {
	return errors.Join(os.WriteFile(path, []byte("other.\n"), 0o600), os.Chown(path, user, otherGroup))
}

// exchangeFiles exchanges two files as fast as possible, until stop is called.
func exchangeFiles(a, b string) (stop func()) {
	end, ended := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(ended)
		for {
			select {
			case <-end:
				return
			default:
				_ = unix.Renameat2(unix.AT_FDCWD, a, unix.AT_FDCWD, b, unix.RENAME_EXCHANGE)
				time.Sleep(time.Microsecond)
			}
		}
	}()
	return func() {
		close(end)
		<-ended
	}
}

// TestForbidden: the files belong to the user, and have permissions that forbid to open them again in the same way.
func TestForbidden(t *testing.T) {
	needCRIU(t)
	work := workDir(t)
	c := newCapsule(t)
	r := c.runProgram("/usr/bin/python3", "-c", openerScript(work, `
f = open('key', 'r+'); f.read(2); f.seek(2); os.chmod('key', 0o444)
g = os.open('sub/key', os.O_WRONLY | os.O_APPEND); os.chmod('sub/key', 0)
h = os.dup(g)
mine('mapped'); k = open('mapped', 'r+b'); w = mmap.mmap(k.fileno(), 6); k.close(); os.chmod('mapped', 0o400)
mine('private'); k = open('private', 'r+b'); p = mmap.mmap(k.fileno(), 6, flags=mmap.MAP_PRIVATE); k.close(); os.chmod('private', 0o400); p[0:1] = b'P'
def tell():
    f.write('X'); f.flush(); os.write(g, b'1'); os.write(h, b'2')
    import fcntl
    os.fchmod(g, 0o600); s = open('sub/key').read(); os.fchmod(g, 0)
    w[0:1] = b'M'; w.flush(); p[1:2] = b'I'
    return p[0:4], open('private').read(), f.tell(), open('key').read(), s, fcntl.fcntl(g, fcntl.F_GETFL) & os.O_APPEND != 0, open('mapped').read()`, "tell()"))
	r.expectLine("ready")
	images := newImageFolder(t)
	img := dumpProgram(t, r.program, images)
	c.endCapsule()
	_, r = restoreImage(t, img, images)
	r.askAndExpect("?", `(b'PIne', 'mine..\n', 3, 'miXe..\n', 'mine..\n12', True, 'Mine..\n')`)
}

// TestGrown: a program that only reads a file comes back when the file has become longer, as another job's log does, and
// reads the bytes that have come. So does a program that appends to a file, behind these bytes. A file that has become
// shorter, and a file that the program writes elsewhere or maps, must have its size.
func TestGrown(t *testing.T) {
	needCRIU(t)
	grow := func(t *testing.T, path string) {
		t.Helper()
		f, err := os.OpenFile(path, os.O_WRONLY|os.O_APPEND, 0)
		if err == nil {
			_, err = f.WriteString("more\n")
			err = errors.Join(err, f.Close())
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	shrink := func(t *testing.T, path string) {
		t.Helper()
		if err := os.Truncate(path, 5); err != nil {
			t.Fatal(err)
		}
	}
	const (
		badSize = "put the file back as it was at the checkpoint"
		read    = "os.read(f.fileno(), 9)"
		write   = `(f.write('own'), f.flush(), open('key').read())`
		behind  = `(3, None, 'mine..\nmore\nown')`
	)
	for name, test := range map[string]struct {
		open   string
		change func(*testing.T, string)
		then   string // in the restored program
		says   string // the answer, or the error of the restore
		fixed  bool   // the restore needs the file's size
	}{
		"read":                 {"f = open('key'); f.read(2)", grow, read, `b'more\n'`, false},
		"appended to":          {"f = open('key', 'a')", grow, write, behind, false},
		"read and appended to": {"f = open('key', 'a+'); f.read(2)", grow, write, behind, false},
		"read, shorter":        {"f = open('key'); f.read(2)", shrink, read, badSize, false},
		"written":              {"f = open('key', 'r+'); f.read(2)", grow, read, badSize, true},
		"mapped":               {"f = open('key'); f.read(2); m = mmap.mmap(f.fileno(), 7, prot=mmap.PROT_READ)", grow, read, badSize, true},
		"also written":         {"f = open('key', 'a'); g = open('key', 'r+')", grow, read, badSize, true},
	} {
		t.Run(name, func(t *testing.T) {
			work := workDir(t)
			c := newCapsule(t)
			r := c.runProgram("/usr/bin/python3", "-c", openerScript(work, test.open, test.then))
			r.expectLine("ready")
			images := newImageFolder(t)
			img := dumpProgram(t, r.program, images)
			c.endCapsule()
			if fixed := img.FixedPaths()[filepath.Join(work, "key")]; fixed != test.fixed {
				t.Errorf("FixedPaths has the file: %v, want %v", fixed, test.fixed)
			}
			test.change(t, filepath.Join(work, "key"))
			if test.says != badSize {
				_, r = restoreImage(t, img, images)
				r.askAndExpect("?", test.says)
				return
			}
			c = newCapsule(t)
			r = makePipes(t)
			if err := Restore(testDeadline(t), img, Program{Init: c.initPID()}, r.far, images); err == nil || !strings.Contains(err.Error(), test.says) {
				t.Errorf("error %v, want one with %q", err, test.says)
			}
		})
	}
}

// TestManyMappings: the comparison of many mappings takes little time.
func TestManyMappings(t *testing.T) {
	needCRIU(t)
	work := workDir(t)
	c := newCapsule(t)
	r := c.runProgram("/usr/bin/python3", "-c", openerScript(work, `
all = []
for i in range(1000):
    mine('f%d' % i); f = open('f%d' % i); all.append(mmap.mmap(f.fileno(), 7, prot=mmap.PROT_READ)); f.close()`, "'well'"))
	r.expectLine("ready")
	images := newImageFolder(t)
	img := dumpProgram(t, r.program, images)
	begin := time.Now()
	if err := img.recordProcesses(c.initPID()); err != nil {
		t.Fatal(err)
	}
	t.Logf("%d files noted in %s", len(img.Opened), time.Since(begin))
	begin = time.Now()
	if err := img.compareOpened(c.initPID(), nil); err != nil {
		t.Fatal(err)
	}
	t.Logf("compared in %s", time.Since(begin))
	c.endCapsule()
	_, r = restoreImage(t, img, images)
	r.askAndExpect("?", "well")
}

// TestServerThatIsSilent: open files of processes are noted without a question to a user's server of a file system. The
// server may answer all but root: a thread of the daemon would wait forever, and SIGKILL would not end the thread.
func TestServerThatIsSilent(t *testing.T) {
	server := mountstest.Serve(t, 1001)
	fd := server.Open(t)
	server.Silence()
	self := os.Getpid()
	look := func(link string) {
		t.Helper()
		s, err := newOpenedFiles(self)
		if err != nil {
			t.Fatal(err)
		}
		places, err := s.readOpenPlaces(self)
		if err != nil {
			t.Fatal(err)
		}
		at, there := places.Descriptors[fd]
		if want := (OpenedFile{Path: link, Mode: unix.S_IFREG | 0o666}); !there || s.opened[at] != want {
			t.Errorf("noted %+v, want %+v", s.opened[at], want)
		}
	}
	look(server.Path)
	i := &Image{Opened: []OpenedFile{{Path: server.Path, Mode: unix.S_IFREG | 0o600}}}
	if err := i.changedPath(self); err != nil {
		t.Errorf("the server was asked: %v", err)
	}
	if err := unix.Unmount(server.Folder, unix.MNT_DETACH); err != nil {
		t.Fatal(err)
	}
	look("/file")
}
