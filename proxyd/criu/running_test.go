// SPDX-FileCopyrightText: 2026 The singularity-slurm authors
// SPDX-License-Identifier: Apache-2.0

package criu

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/singularity-slurm/singularity-slurm/proxyd/messagequeue"
)

// running is a program with pipes of the test as standard input and output.
type running struct {
	t       testing.TB
	program Program
	in      *os.File
	out     *bufio.Reader
	outFile *os.File
	far     [3]*os.File
}

// runBash starts a program of bash's.
func (c *capsule) runBash(text string) *running { return c.runProgram("/bin/bash", "-c", text) }

func (c *capsule) runProgram(argv ...string) *running {
	c.t.Helper()
	return c.runAs(user, argv...)
}

func (c *capsule) runAs(uid uint32, argv ...string) *running {
	c.t.Helper()
	r := makePipes(c.t)
	pid := c.startProgram(order{Argv: argv, Uid: uid, Paths: [3]string{2: "/dev/null"}, LastPID: c.nextPID()}, r.far[0], r.far[1])
	r.program = Program{Init: c.initPID(), PID: pid, UID: uid, GID: uid, Stdio: r.pipeNames()}
	r.closeFar()
	return r
}

// nextPID keeps programs that are started in a new capsule away from the restorer's PIDs.
func (c *capsule) nextPID() int {
	members, err := listMembers(c.initPID())
	if err != nil {
		c.t.Fatal(err)
	}
	last := 300
	for pid := range members {
		last = max(last, pid)
	}
	return last
}

func makePipes(t testing.TB) *running {
	t.Helper()
	r := &running{t: t}
	var err error
	if r.far[0], r.in, err = os.Pipe(); err != nil {
		t.Fatal(err)
	}
	if r.outFile, r.far[1], err = os.Pipe(); err != nil {
		t.Fatal(err)
	}
	r.outFile.SetReadDeadline(time.Now().Add(60 * time.Second))
	r.out = bufio.NewReader(r.outFile)
	t.Cleanup(func() {
		r.closeFar()
		r.in.Close()
		r.outFile.Close()
	})
	return r
}

func (r *running) pipeNames() [3]string {
	r.t.Helper()
	names, err := StdioOf(r.far)
	if err != nil {
		r.t.Fatal(err)
	}
	names[2] = "/dev/null"
	return names
}

func (r *running) closeFar() {
	for _, f := range r.far {
		if f != nil {
			f.Close()
		}
	}
}

// writeLine writes a line.
func (r *running) writeLine(s string) { fmt.Fprintln(r.in, s) }

func (r *running) readLine() string {
	r.t.Helper()
	s, err := r.out.ReadString('\n')
	if err != nil {
		r.t.Fatalf("the program's next line after %q: %v", s, err)
	}
	return strings.TrimSuffix(s, "\n")
}

func (r *running) expectLine(want string) {
	r.t.Helper()
	if got := r.readLine(); got != want {
		r.t.Fatalf("got %q, want %q", got, want)
	}
}

func (r *running) askAndExpect(question, want string) {
	r.t.Helper()
	r.writeLine(question)
	r.expectLine(want)
}

// readToEnd returns the rest of the output; no process holds the other end any more.
func (r *running) readToEnd() string {
	r.t.Helper()
	b, err := io.ReadAll(r.out)
	if err != nil {
		r.t.Fatal(err)
	}
	return string(b)
}

// folder keeps images in files.
type folder string

func (f folder) Create(name string) (io.WriteCloser, error) {
	return os.OpenFile(filepath.Join(string(f), name), os.O_CREATE|os.O_EXCL|os.O_WRONLY, 0o600)
}

func (f folder) Open(name string) (io.ReadCloser, error) {
	return os.Open(filepath.Join(string(f), name))
}

// newImageFolder is a new folder on a tmpfs.
func newImageFolder(t testing.TB) folder {
	t.Helper()
	dir, err := os.MkdirTemp("/dev/shm", "images-")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.RemoveAll(dir) })
	return folder(dir)
}

func dumpProgram(t testing.TB, p Program, sink Sink) *Image {
	t.Helper()
	img, err := Dump(testDeadline(t), p, sink)
	if err != nil {
		explainTo(t, err)
		t.Fatal(err)
	}
	return img
}

// dumpCounting runs the program that counts, in a capsule of its own, and returns its image and the folder of the
// image's files.
func dumpCounting(t testing.TB) (*Image, folder) {
	t.Helper()
	c := newCapsule(t)
	r := c.runBash(counting)
	r.expectLine("ready")
	dir := newImageFolder(t)
	img := dumpProgram(t, r.program, dir)
	c.endCapsule()
	return img, dir
}

func explainTo(t testing.TB, err error) {
	var e *Error
	if errors.As(err, &e) {
		t.Log(e.Log)
	}
}

// restoreImage restores img in a new capsule.
func restoreImage(t testing.TB, img *Image, src Source) (*capsule, *running) {
	t.Helper()
	c := newCapsule(t)
	return c, c.restoreImage(img, src)
}

func (c *capsule) restoreImage(img *Image, src Source) *running {
	c.t.Helper()
	return c.restoreWith(img, src, nil)
}

func (c *capsule) restoreWith(img *Image, src Source, queues *messagequeue.State) *running {
	c.t.Helper()
	r := makePipes(c.t)
	if err := Restore(testDeadline(c.t), img, Program{Init: c.initPID(), Queues: queues}, r.far, src); err != nil {
		explainTo(c.t, err)
		c.t.Fatal(err)
	}
	r.program = img.Program
	r.program.Init, r.program.Stdio = c.initPID(), r.pipeNames()
	r.closeFar()
	return r
}

// makeFIFO makes work/fifo, and returns f.
func makeFIFO(t testing.TB, work string, f *os.File) *os.File {
	t.Helper()
	if err := unix.Mkfifo(work+"/fifo", 0o666); err != nil {
		t.Fatal(err)
	}
	if err := os.Chmod(work+"/fifo", 0o666); err != nil {
		t.Fatal(err)
	}
	return f
}

func readFile(t testing.TB, path string) string {
	t.Helper()
	b, err := os.ReadFile(path)
	if err != nil && !errors.Is(err, os.ErrNotExist) {
		t.Fatal(err)
	}
	return string(b)
}

// waitFor polls until f is true, for conditions without an event.
func waitFor(t testing.TB, f func() bool) {
	t.Helper()
	for end := time.Now().Add(30 * time.Second); !f(); time.Sleep(2 * time.Millisecond) {
		if time.Now().After(end) {
			t.Fatal("the wait did not end within 30 s")
		}
	}
}
