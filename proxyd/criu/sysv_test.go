// SPDX-FileCopyrightText: 2026 The singularity-slurm authors
// SPDX-License-Identifier: Apache-2.0

package criu

import (
	"errors"
	"strings"
	"testing"
)

// letRootNumber has criu be root for programs with System V objects until the test ends, as on a kernel that lets
// root alone choose their numbers.
func letRootNumber(t *testing.T) {
	ofKernel := checkNumbering
	checkNumbering = func() error { return errors.New("the test has root choose their numbers") }
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
