// SPDX-FileCopyrightText: 2026 The singularity-slurm authors
// SPDX-License-Identifier: Apache-2.0

package processes

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/singularity-slurm/singularity-slurm/proxyd/capsule"
)

// TestPeers: of programs that have connected unix sockets, each is named with the other and with advice. Sockets within a
// program, sockets with which a program began, datagrams and connections that nothing has accepted are left out.
func TestPeers(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("SKIP: needs root: it joins a network namespace")
	}
	name := filepath.Join(t.TempDir(), "s")
	server := startPython(t, `
import socket, threading
s = socket.socket(socket.AF_UNIX); s.bind("`+name+`"); s.listen()
d = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM); d.bind("`+name+`.log")
n = socket.socket(socket.AF_UNIX); n.bind("`+name+`.queue"); n.listen()
kept = []
def serve():
    while True: kept.append(s.accept()[0]); kept[-1].send(b"x")
threading.Thread(target=serve, daemon=True).start()`)
	const connect = `
import socket
def connect(to): c = socket.socket(socket.AF_UNIX); c.connect(to); return c
`
	client := startPython(t, connect+`
c = connect("`+name+`"); c.recv(1)`)
	alone := startPython(t, connect+`
pair = socket.socketpair()
d = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM); d.connect("`+name+`.log"); d.send(b"x")
q = connect("`+name+`.queue")`)
	const cure = "have a single task start both programs, or have them connect by TCP"
	batch, step, third := capsule.Program{Name: "batch"}, capsule.Program{Name: "s0-0.0"}, capsule.Program{Name: "s0-1.0"}
	started := step
	started.Stdio[1] = onlySocket(t, client)
	said := func(pid int, other string) string {
		return fmt.Sprintf("python3 (PID %d) is connected to program %s of the job by a unix socket, %s: %s", pid, other, name, cure)
	}
	for what, test := range map[string]struct {
		programs []capsule.Program
		members  [][]int
		want     []string
	}{
		"two programs":         {[]capsule.Program{batch, step, third}, [][]int{{server}, {client}, {alone}}, []string{said(server, "s0-0.0"), said(client, "batch")}},
		"one program":          {[]capsule.Program{batch, step}, [][]int{{server, client}, {alone}}, nil},
		"not connected":        {[]capsule.Program{batch, step}, [][]int{{server}, {alone}}, nil},
		"its standard output":  {[]capsule.Program{batch, started}, [][]int{{server}, {client}}, []string{said(server, "s0-0.0")}},
		"a program that ended": {[]capsule.Program{batch, step}, [][]int{{server}, {1 << 30}}, nil},
	} {
		t.Run(what, func(t *testing.T) {
			programs := slices.Clone(test.programs)
			for i, pids := range test.members {
				programs[i].Cgroup = t.TempDir()
				if err := os.WriteFile(filepath.Join(programs[i].Cgroup, "cgroup.procs"), []byte(strings.Trim(fmt.Sprintln(pids), "[]\n")), 0o644); err != nil {
					t.Fatal(err)
				}
			}
			var got []string
			for _, o := range FindObstacles(t.Context(), os.Getpid(), programs) {
				got = append(got, o.String())
			}
			if !slices.Equal(got, test.want) {
				t.Errorf("obstacles %q, want %q", got, test.want)
			}
		})
	}
}

// onlySocket returns the link of the socket that a process has.
func onlySocket(t *testing.T, pid int) string {
	t.Helper()
	folder := fmt.Sprintf("/proc/%d/fd", pid)
	names, err := os.ReadDir(folder)
	if err != nil {
		t.Fatal(err)
	}
	for _, n := range names {
		if link, err := os.Readlink(filepath.Join(folder, n.Name())); err == nil && strings.HasPrefix(link, "socket:") {
			return link
		}
	}
	t.Fatalf("process %d has no socket", pid)
	return ""
}
