// SPDX-FileCopyrightText: 2026 The singularity-slurm authors
// SPDX-License-Identifier: Apache-2.0

package processes

import (
	"io"
	"os"
	"os/exec"
	"slices"
	"syscall"
	"testing"
)

// startAs starts a process with ids and groups, which ends with the test.
func startAs(t *testing.T, attr *syscall.SysProcAttr, argv ...string) int {
	t.Helper()
	cmd := exec.Command(argv[0], argv[1:]...)
	cmd.SysProcAttr = attr
	in, err := cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { in.Close(); _ = cmd.Wait() })
	if _, err := io.WriteString(in, "up\n"); err != nil {
		t.Fatal(err)
	}
	if _, err := io.ReadFull(out, make([]byte, 3)); err != nil { // the process has its groups now
		t.Fatal(err)
	}
	return cmd.Process.Pid
}

// TestUserGroups: files are read and put back with the groups that the job's user has, and not with
// the groups of a process that the user has started by sudo, by a set-group-ID program, or in a user
// namespace.
func TestUserGroups(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("SKIP: needs root: it starts processes of other users")
	}
	const uid, gid = 12345, 12345
	as := func(uid uint32, groups ...uint32) *syscall.SysProcAttr {
		return &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: uid, Gid: uid, Groups: groups}}
	}
	user := startAs(t, as(uid, 7, 23456), "/bin/cat")
	sudo := startAs(t, as(0, 0, 4242), "/bin/cat")
	setGID := startAs(t, &syscall.SysProcAttr{}, "setpriv", "--reuid", "12345", "--rgid", "12345", "--egid", "42", "--groups", "4242", "/bin/cat")
	inside := startAs(t, &syscall.SysProcAttr{
		Cloneflags:  syscall.CLONE_NEWUSER,
		UidMappings: []syscall.SysProcIDMap{{ContainerID: 0, HostID: uid, Size: 1}},
		GidMappings: []syscall.SysProcIDMap{{ContainerID: 0, HostID: gid, Size: 1}, {ContainerID: 1, HostID: 4242, Size: 1}},
		Credential:  &syscall.Credential{Groups: []uint32{1}}, GidMappingsEnableSetgroups: true,
	}, "/bin/cat")
	none := startAs(t, as(uid), "/bin/cat")

	want := []uint32{7, 23456}
	if got := UserGroups([]int{sudo, setGID, inside, user, none}, uid, gid); !slices.Equal(got, want) {
		t.Errorf("groups %d, want %d", got, want)
	}
	for name, pid := range map[string]int{"sudo": sudo, "set-group-ID": setGID, "user namespace": inside, "ended": 1 << 30} {
		if got := UserGroups([]int{pid}, uid, gid); len(got) != 0 {
			t.Errorf("%s: groups %d", name, got)
		}
	}
	if got := UserGroups([]int{none, user}, uid, gid); len(got) != 0 {
		t.Errorf("a user without groups: %d", got)
	}
}
