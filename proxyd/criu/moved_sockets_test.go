// SPDX-FileCopyrightText: 2026 The singularity-slurm authors
// SPDX-License-Identifier: Apache-2.0

package criu

import (
	"fmt"
	"strconv"
	"strings"
	"testing"
)

// movingProgram binds three sockets and gives their files other names: by a link, by rename, and by a link beside a relative
// name. The program prints the sockets' inodes, and sends back the bytes that come through new connections.
const movingProgram = `
import os, socket, stat
os.chdir(WORK)
def bound(name, kind=socket.SOCK_STREAM):
    s = socket.socket(socket.AF_UNIX, kind); s.bind(name); os.chmod(name, 0o640); return s
linked, renamed, relative = bound(WORK + '/linked.x'), bound(WORK + '/renamed.x', socket.SOCK_DGRAM), bound('relative.x')
old = socket.socket(socket.AF_UNIX)
for l, name in (linked, 'linked'), (relative, 'relative'): l.listen(); os.link(name + '.x', name); os.unlink(name + '.x')
old.connect('linked'); accepted = linked.accept()[0]
os.rename('renamed.x', 'renamed')
print(*[os.fstat(s.fileno()).st_ino for s in (linked, renamed, relative)], flush=True)
def through(l, name):
    c = socket.socket(socket.AF_UNIX, l.type); c.settimeout(20); l.settimeout(20); c.connect(WORK + '/' + name); c.send(name.encode())
    return (l if l.type == socket.SOCK_DGRAM else l.accept()[0]).recv(20).decode()
while input() == 'use':
    old.send(b'old')
    said = [through(linked, 'linked'), through(renamed, 'renamed'), through(relative, 'relative'), accepted.recv(9).decode()]
    print(*said, *sorted(os.listdir(WORK)), oct(os.stat('linked').st_mode), flush=True)
`

// TestRestoreMovedSockets: a socket is restored at the name that its file had, and at no other, with its permissions.
func TestRestoreMovedSockets(t *testing.T) {
	needCRIU(t)
	for name, uid := range map[string]uint32{"a user's": user, "root's": 0} {
		t.Run(name, func(t *testing.T) {
			work := workDir(t)
			const want = "linked renamed relative old linked relative renamed 0o140640"
			c := newCapsule(t)
			r := c.runAs(uid, "/usr/bin/python3", "-c", fmt.Sprintf("WORK = %q", work)+movingProgram)
			r.program.Moved = map[uint32]string{}
			for n, word := range strings.Fields(r.readLine()) {
				inode, err := strconv.ParseUint(word, 10, 32)
				if err != nil {
					t.Fatal(err)
				}
				r.program.Moved[uint32(inode)] = []string{work + "/linked", work + "/renamed", "relative"}[n]
			}
			r.askAndExpect("use", want)
			dir := newImageFolder(t)
			img := dumpProgram(t, r.program, dir)
			r.askAndExpect("use", want)
			c.endCapsule()
			_, r = restoreImage(t, img, dir)
			r.askAndExpect("use", want)
		})
	}
}
