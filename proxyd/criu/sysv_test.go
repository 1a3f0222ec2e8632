// SPDX-FileCopyrightText: 2026 The singularity-slurm authors
// SPDX-License-Identifier: Apache-2.0

package criu

import (
	"errors"
	"fmt"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/singularity-slurm/singularity-slurm/proxyd/host"
)

// letRootNumber has criu be root for programs with System V objects until the test ends, as on a kernel that lets
// root alone choose their numbers.
func letRootNumber(t *testing.T) {
	ofKernel := checkNumbering
	checkNumbering = func() error { return fmt.Errorf("%w: the test has root choose their numbers", host.ErrUnsupported) }
	t.Cleanup(func() { checkNumbering = ofKernel })
}

// TestAsRoot: where the kernel lets root alone choose the numbers of System V objects, a program of a user that has
// such objects is not restored, unless root may restore it. Other programs are restored.
func TestAsRoot(t *testing.T) {
	needCRIU(t)
	const objects = `import ctypes, socket
libc = ctypes.CDLL(None); libc.shmat.restype = ctypes.c_void_p
n = libc.shmget(0, 4096, 0o1600); assert n >= 0
ctypes.memmove(libc.shmat(n, None, 0), b'mine', 4)
s = socket.socket(socket.AF_UNIX); s.bind('/tmp/socket'); s.listen()`
	const tell = "(ctypes.string_at(libc.shmat(n, None, 0), 4), os.stat('/tmp/socket').st_uid, os.getresuid())"
	const same = "(b'mine', 12345, (12345, 12345, 12345))"
	for name, test := range map[string]struct {
		open, tell string
		uid        uint32
		allowed    bool
		want       string // "": not restored
	}{
		"refused":             {objects, tell, user, false, ""},
		"allowed":             {objects, tell, user, true, same},
		"without objects":     {"", "os.getresuid()", user, false, "(12345, 12345, 12345)"},
		"a program of root's": {objects, "os.getresuid()", 0, false, "(0, 0, 0)"},
	} {
		t.Run(name, func(t *testing.T) {
			letRootNumber(t)
			c := newCapsule(t)
			r := c.runAs(test.uid, "/usr/bin/python3", "-c", openerScript(workDir(t), test.open, test.tell))
			r.expectLine("ready")
			images := newImageFolder(t)
			img := dumpProgram(t, r.program, images)
			c.endCapsule()

			c = newCapsule(t)
			r = makePipes(t)
			err := Restore(testDeadline(t), img, Program{Init: c.initPID(), AsRoot: test.allowed}, r.far, images)
			if test.want == "" {
				if !errors.As(err, new(*UnsupportedHost)) || !strings.Contains(err.Error(), "has System V objects") || !strings.Contains(err.Error(), "restore_as_root: allow") {
					t.Errorf("error %v, want one that says what to set", err)
				}
				checkAlone(t, c)
				return
			}
			if err != nil {
				t.Fatal(err)
			}
			r.closeFar()
			r.askAndExpect("?", test.want)
		})
	}
}

// TestUndecidedNumbering: where the kernel could not be asked, a program with System V objects is not restored by root,
// whatever is allowed, and the host does not count as unsuitable.
func TestUndecidedNumbering(t *testing.T) {
	ofKernel := checkNumbering
	t.Cleanup(func() { checkNumbering = ofKernel })
	img := &Image{Program: Program{PID: 7, UID: 12345}, Files: []File{{Name: "ipcns-var-10.img"}}}
	for _, allowed := range []bool{false, true} {
		checkNumbering = func() error { return unix.EMFILE }
		if err := img.checkAsRoot(allowed); !errors.Is(err, unix.EMFILE) || errors.As(err, new(*UnsupportedHost)) {
			t.Errorf("allowed %t, no descriptors: %v, want EMFILE and no *UnsupportedHost", allowed, err)
		}
		checkNumbering = func() error { return host.ErrUnsupported }
		if err := img.checkAsRoot(allowed); (err == nil) != allowed {
			t.Errorf("allowed %t, an old kernel: %v", allowed, err)
		}
	}
}
